use super::*;
use crate::direction::Frame;

fn directions(words: &str) -> [Direction<Packet>; 2] {
    let link = Link::parse(words).unwrap();
    [1, 2].map(|seed| Direction::new(&link, Memory::Chain, seed, 1_000))
}

/// Passes `frames` frames through the direction, one every millisecond. Each is polled `late` after it is due.
fn run(direction: &mut Direction<Packet>, frames: u64, late: Duration) {
    for number in 0..frames {
        let now = Time::ZERO + Duration::from_millis(number);
        direction.arrive(Packet::new(vec![0; 100].into(), 100, false), now);
        let look = direction.poll_timeout().unwrap() + late;
        let due = direction.poll(look).unwrap();
        assert_eq!(due.frame.length(), 100);
        direction.sent(&due, true, look);
    }
}

#[test]
fn a_run_without_a_fault_raises_no_doubt() {
    let mut directions = directions("delay 2ms");
    directions.iter_mut().for_each(|direction| run(direction, 1_000, Duration::from_micros(50)));
    assert_eq!(doubts(0.9, &directions), [""; 0]);
}

#[test]
fn a_run_near_the_limit_of_the_program_raises_a_doubt() {
    assert_eq!(doubts(0.95, &directions("")), ["for a tenth of a second it was busy for 95 %"]);
}

#[test]
fn frames_that_bypassed_the_link_raise_doubts() {
    let mut directions = directions("");
    directions[0].counts = Counts { missed: 3, too_many: 1, ..Counts::default() };
    directions[1].counts =
        Counts { oversize: 4, unfinished: 5, refused: 6, lost: 9, queue_full: 9, ..Counts::default() };
    assert_eq!(
        doubts(0.0, &directions),
        [
            "to the right: 3 frames were lost before it saw them",
            "to the right: 1 frames were more than may be under way",
            "to the left: 4 frames were longer than a wire packet: an offload is on",
            "to the left: 5 frames had no checksum yet: an offload is on",
            "to the left: 6 frames were not taken by the other end",
        ]
    );
}

#[test]
fn accepted_lateness_grows_with_the_delay_of_the_link() {
    let late = |words, microseconds, frames| {
        let mut directions = directions(words);
        run(&mut directions[1], 1_000 - frames, Duration::ZERO);
        run(&mut directions[1], frames, Duration::from_micros(microseconds));
        doubts(0.0, &directions)
    };
    // Accepted lateness: a quarter of 2 ms, a quarter of 200 ms, and 200 µs on a link without delay.
    assert_eq!(late("delay 2ms", 480, 50), [""; 0]);
    assert_eq!(
        late("delay 2ms", 600, 50),
        ["to the left: one frame in a hundred left 0.6 ms late or more, where 2.0 ms are usual"]
    );
    assert_eq!(late("delay 200ms", 40_000, 50), [""; 0]);
    assert_eq!(late("", 180, 50), [""; 0]);
    assert_eq!(late("", 250, 50).len(), 1);
    // Fewer than one late frame in a hundred raise no doubt.
    assert_eq!(late("delay 2ms", 600, 9), [""; 0]);
}
