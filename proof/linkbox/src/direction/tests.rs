use super::*;

const MAX_UNDER_WAY: usize = 1_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
struct TestFrame(u64);

impl Frame for TestFrame {
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

fn direction(words: &str) -> Direction<TestFrame> {
    Direction::new(&Link::parse(words).unwrap(), Memory::Chain, 11, MAX_UNDER_WAY)
}

/// Sends `frames` frames, one every `every` microseconds. Returns the number and the arrival time of each frame that arrived.
fn run(direction: &mut Direction<TestFrame>, frames: u64, every: u64) -> Vec<(u64, Time)> {
    let mut arrived = Vec::new();
    let collect = |direction: &mut Direction<TestFrame>, until: Time, arrived: &mut Vec<_>| {
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
        direction.arrive(TestFrame(number), now);
    }
    collect(direction, Time(u64::MAX), &mut arrived);
    arrived
}

#[test]
fn a_link_without_settings_changes_nothing() {
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
fn jitter_reorders_frames_unless_order_is_kept() {
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
fn with_keep_order_only_frames_chosen_by_reorder_overtake() {
    let mut direction = direction("delay 4ms jitter 3ms reorder 1% keep-order");
    let arrived = run(&mut direction, 100_000, 100);
    assert!((800..1_200).contains(&direction.counts.hurried), "{:?}", direction.counts);
    // An overtaken frame arrives late; an overtaking frame arrives without delay.
    let mut highest = 0;
    for (number, when) in arrived {
        if number > highest + 1 {
            assert_eq!(when, at(number * 100), "only a frame without the additional delay overtakes others");
        }
        highest = highest.max(number);
    }
}

#[test]
fn the_base_delay_applies_to_every_frame() {
    let mut direction = direction("base 300us delay 1ms reorder 50%");
    run(&mut direction, 1_000, 10_000);
    assert!(direction.delays.quantile(0.01) >= Duration::from_micros(300));
    assert!(
        direction.delays.quantile(0.1) < Duration::from_micros(320)
            && direction.delays.most() == Duration::from_micros(1_300)
    );
}

#[test]
fn configured_shares_are_reached() {
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
fn the_output_is_limited_to_the_rate_for_any_input() {
    // A frame has 12,000 bits: 1,000 frames a second fit through, and three times as many arrive.
    let mut direction = direction("rate 12mbit queue 15kb delay 5ms");
    let arrived = run(&mut direction, 6_000, 333);
    let counts = direction.counts;
    assert!((1_990..=2_020).contains(&counts.sent), "{counts:?}");
    assert_eq!(counts.sent + counts.queue_full, 6_000);
    assert!(arrived.windows(2).skip(1).all(|pair| pair[1].1.since(pair[0].1) >= Duration::from_millis(1)));
    // At most ten frames wait, which takes 10 ms; the delay adds 5 ms.
    assert!(direction.delays.most() <= Duration::from_millis(15));
    assert!(direction.delays.quantile(0.5) >= Duration::from_millis(13));
}

#[test]
fn codel_shortens_a_standing_queue() {
    let mut deep = direction("rate 12mbit queue 1s");
    run(&mut deep, 9_000, 900);
    let mut managed = direction("rate 12mbit queue 1s codel");
    run(&mut managed, 9_000, 900);
    assert_eq!(deep.counts.codel, 0);
    assert!(managed.counts.codel > 100, "{:?}", managed.counts);
    assert!(managed.delays.quantile(0.5) < deep.delays.quantile(0.5) / 2);
}

#[test]
fn a_late_poll_is_measured_and_changes_nothing_else() {
    let mut direction = direction("delay 1ms");
    direction.arrive(TestFrame(0), at(0));
    assert!(direction.poll(at(999)).is_none());
    let due = direction.poll(at(1_300)).unwrap();
    direction.sent(&due, true, at(1_300));
    assert_eq!(direction.lateness.most(), Duration::from_micros(300));
    assert_eq!(direction.delays.most(), Duration::from_micros(1_300));
}

#[test]
fn frames_under_way_are_bounded() {
    let link = Link::parse("delay 1s").unwrap();
    let mut direction = Direction::new(&link, Memory::Chain, 1, 10);
    (0..15).for_each(|number| direction.arrive(TestFrame(number), at(number)));
    assert_eq!((direction.under_way(), direction.counts.too_many), (10, 5));
}

#[test]
fn refused_frames_count_only_as_refused() {
    let mut direction = direction("");
    direction.arrive(TestFrame(0), at(5));
    let due = direction.poll(at(5)).unwrap();
    direction.sent(&due, false, at(5));
    assert_eq!((direction.counts.refused, direction.counts.sent, direction.delays.count()), (1, 0, 0));
}

#[test]
fn lost_and_dropped_frames_are_returned() {
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
    (0..15).for_each(|number| narrow.arrive(TestFrame(number), at(number)));
    assert_eq!(narrow.gone, (10..15).map(TestFrame).collect::<Vec<_>>());
}

#[test]
fn a_reset_of_the_counts_changes_nothing_else() {
    let words = "delay 4ms jitter 3ms loss 5%";
    let (mut reset, mut not_reset) = (direction(words), direction(words));
    let start: Vec<_> = [&mut reset, &mut not_reset].map(|direction| run(direction, 1_000, 100)).into();
    assert_eq!(start[0], start[1]);
    reset.arrive(TestFrame(0), at(200_000));
    not_reset.arrive(TestFrame(0), at(200_000));
    let before = not_reset.counts;
    reset.reset_counts();
    assert_eq!((reset.counts, reset.delays.count(), reset.lateness.count()), (Counts::default(), 0, 0));
    let rest = [&mut reset, &mut not_reset].map(|direction| {
        (1..1_000).for_each(|number| direction.arrive(TestFrame(number), at(200_000 + number)));
        std::iter::from_fn(|| direction.poll(at(300_000)))
            .map(|due| (due.frame.0, due.when, due.number))
            .collect::<Vec<_>>()
    });
    assert_eq!(rest[0], rest[1]);
    let more = not_reset.counts;
    assert_eq!((reset.counts.received, reset.counts.lost), (more.received - before.received, more.lost - before.lost));
}
