use super::*;

const MOST: usize = 1_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Letter(u64);

impl Frame for Letter {
    fn length(&self) -> usize {
        1_500
    }

    fn copy(&self) -> Self {
        self.clone()
    }
}

fn at(microseconds: u64) -> Time {
    Time::ZERO + Duration::from_micros(microseconds)
}

fn direction(words: &str) -> Direction<Letter> {
    Direction::new(&Link::parse(words).unwrap(), Memory::Chain, 11, MOST)
}

/// So many frames, one every `every` microseconds; which arrived, and when.
fn run(direction: &mut Direction<Letter>, frames: u64, every: u64) -> Vec<(u64, Time)> {
    let mut arrived = Vec::new();
    let collect = |direction: &mut Direction<Letter>, until: Time, arrived: &mut Vec<_>| {
        while let Some(now) = direction.poll_timeout().filter(|due| *due <= until) {
            while let Some(due) = direction.poll(now) {
                direction.sent(&due, true, now);
                arrived.push((due.frame.0, now));
            }
        }
    };
    for number in 0..frames {
        let now = at(number * every);
        collect(direction, now, &mut arrived);
        direction.arrive(Letter(number), now);
    }
    collect(direction, Time(u64::MAX), &mut arrived);
    arrived
}

#[test]
fn a_wire_changes_nothing() {
    let mut direction = direction("");
    let arrived = run(&mut direction, 1_000, 10);
    assert!(
        arrived.iter().enumerate().all(|(place, (number, when))| (place as u64, at(number * 10)) == (*number, *when))
    );
    let counts = direction.counts;
    assert_eq!((counts.received, counts.sent, counts.sent_bytes), (1_000, 1_000, 1_500_000));
    assert_eq!((counts.overtaken, direction.lateness.most(), direction.under_way()), (0, Duration::ZERO, 0));
}

#[test]
fn jitter_reorders_by_itself_unless_order_is_kept() {
    let mut loose = direction("delay 4ms jitter 3ms");
    run(&mut loose, 20_000, 100);
    assert!(loose.counts.overtaken > 10_000, "{:?}", loose.counts);
    assert_eq!(loose.counts.hurried, 0);
    let mean = loose.delays.mean().as_secs_f64() * 1e3;
    assert!((mean - 4.0).abs() < 0.05, "{mean}");

    let mut kept = direction("delay 4ms jitter 3ms keep-order");
    run(&mut kept, 20_000, 100);
    assert_eq!((kept.counts.overtaken, kept.counts.sent), (0, 20_000));
}

#[test]
fn where_order_is_kept_only_chosen_frames_overtake() {
    let mut direction = direction("delay 4ms jitter 3ms reorder 1% keep-order");
    let arrived = run(&mut direction, 100_000, 100);
    assert!((800..1_200).contains(&direction.counts.hurried), "{:?}", direction.counts);
    // An overtaken frame arrives late; an overtaking frame arrives without delay.
    let mut highest = 0;
    for (number, when) in arrived {
        if number > highest + 1 {
            assert_eq!(when, at(number * 100), "only a hurried frame leaves a gap");
        }
        highest = highest.max(number);
    }
}

#[test]
fn the_base_is_for_everybody() {
    let mut direction = direction("base 300us delay 1ms reorder 50%");
    run(&mut direction, 1_000, 10_000);
    assert!(direction.delays.quantile(0.01) >= Duration::from_micros(300));
    assert!(
        direction.delays.quantile(0.1) < Duration::from_micros(320)
            && direction.delays.most() == Duration::from_micros(1_300)
    );
}

#[test]
fn what_is_drawn_comes_out() {
    let mut direction = direction("loss 2.5% duplicate 1% reorder 5% 50% delay 1ms");
    let arrived = run(&mut direction, 400_000, 100);
    let counts = direction.counts;
    let share = |count: u64| count as f64 / 400_000.0;
    assert!((share(counts.lost) - 0.025).abs() < 0.0025, "{counts:?}");
    assert!((share(counts.duplicated) - 0.01).abs() < 0.001, "{counts:?}");
    assert!((share(counts.hurried) - 0.05).abs() < 0.005, "{counts:?}");
    assert_eq!(counts.sent, counts.received - counts.lost + counts.duplicated);
    assert_eq!(arrived.len() as u64, counts.sent);
}

#[test]
fn a_rate_is_what_comes_out_whatever_comes_in() {
    // 12,000 bits each: 1,000 frames a second fit through, and three times as many come.
    let mut direction = direction("rate 12mbit queue 15kb delay 5ms");
    let arrived = run(&mut direction, 6_000, 333);
    let counts = direction.counts;
    assert!((1_990..=2_020).contains(&counts.sent), "{counts:?}");
    assert_eq!(counts.sent + counts.queue_full, 6_000);
    assert!(arrived.windows(2).skip(1).all(|pair| pair[1].1.since(pair[0].1) >= Duration::from_millis(1)));
    // Ten frames wait at most, and then the delay.
    assert!(direction.delays.most() <= Duration::from_millis(15));
    assert!(direction.delays.quantile(0.5) >= Duration::from_millis(13));
}

#[test]
fn codel_shortens_a_queue_that_stands() {
    let mut deep = direction("rate 12mbit queue 1s");
    run(&mut deep, 9_000, 900);
    let mut managed = direction("rate 12mbit queue 1s codel");
    run(&mut managed, 9_000, 900);
    assert_eq!(deep.counts.codel, 0);
    assert!(managed.counts.codel > 100, "{:?}", managed.counts);
    assert!(managed.delays.quantile(0.5) < deep.delays.quantile(0.5) / 2);
}

#[test]
fn a_late_look_is_seen_and_changes_nothing_else() {
    let mut direction = direction("delay 1ms");
    direction.arrive(Letter(0), at(0));
    assert!(direction.poll(at(999)).is_none());
    let due = direction.poll(at(1_300)).unwrap();
    direction.sent(&due, true, at(1_300));
    assert_eq!(direction.lateness.most(), Duration::from_micros(300));
    assert_eq!(direction.delays.most(), Duration::from_micros(1_300));
}

#[test]
fn what_is_under_way_has_a_bound() {
    let link = Link::parse("delay 1s").unwrap();
    let mut direction = Direction::new(&link, Memory::Chain, 1, 10);
    (0..15).for_each(|number| direction.arrive(Letter(number), at(number)));
    assert_eq!((direction.under_way(), direction.counts.too_many), (10, 5));
}

#[test]
fn refused_frames_are_counted_and_nothing_else() {
    let mut direction = direction("");
    direction.arrive(Letter(0), at(5));
    let due = direction.poll(at(5)).unwrap();
    direction.sent(&due, false, at(5));
    assert_eq!((direction.counts.refused, direction.counts.sent, direction.delays.count()), (1, 0, 0));
}

#[test]
fn what_comes_to_nothing_is_handed_back() {
    for words in ["loss 30%", "loss 30% duplicate 30%", "rate 12mbit queue 15kb", "rate 12mbit queue 1s codel"] {
        let mut direction = direction(words);
        run(&mut direction, 6_000, 333);
        let Counts { received, sent, duplicated, queue_full, codel, .. } = direction.counts;
        let copies_sent = sent + direction.gone.len() as u64 - received;
        assert!(copies_sent <= duplicated, "{words}: {:?}", direction.counts);
        assert!(!direction.gone.is_empty() && (queue_full + codel == 0) == words.starts_with("loss"));
    }
    let link = Link::parse("delay 1s").unwrap();
    let mut narrow = Direction::new(&link, Memory::Chain, 1, 10);
    (0..15).for_each(|number| narrow.arrive(Letter(number), at(number)));
    assert_eq!(narrow.gone, (10..15).map(Letter).collect::<Vec<_>>());
}

#[test]
fn counted_anew_everything_else_goes_on() {
    let words = "delay 4ms jitter 3ms loss 5%";
    let (mut asked, mut left_alone) = (direction(words), direction(words));
    let start: Vec<_> = [&mut asked, &mut left_alone].map(|direction| run(direction, 1_000, 100)).into();
    assert_eq!(start[0], start[1]);
    asked.arrive(Letter(0), at(200_000));
    left_alone.arrive(Letter(0), at(200_000));
    let before = left_alone.counts;
    asked.reset_counts();
    assert_eq!((asked.counts, asked.delays.count(), asked.lateness.count()), (Counts::default(), 0, 0));
    let rest = [&mut asked, &mut left_alone].map(|direction| {
        (1..1_000).for_each(|number| direction.arrive(Letter(number), at(200_000 + number)));
        std::iter::from_fn(|| direction.poll(at(300_000)))
            .map(|due| (due.frame.0, due.when, due.number))
            .collect::<Vec<_>>()
    });
    assert_eq!(rest[0], rest[1]);
    let more = left_alone.counts;
    assert_eq!((asked.counts.received, asked.counts.lost), (more.received - before.received, more.lost - before.lost));
}
