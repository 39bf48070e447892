use core::net::SocketAddr;

use taut_base::MAX_MTU;
use taut_testkit::Seeded;

use super::*;

/// One candidate with its link, in virtual time.
struct Bench {
    limit: PacketLimit,
    of: Conditions,
    now: Time,
    /// Bytes of the longest inner packet that passes.
    carries: u16,
    /// Loss of sized probes in per cent.
    loss: u64,
    rng: Seeded,
    answers: VecDeque<(Time, u64)>,
    round_trip: Duration,
    sent: Vec<(Time, u16)>,
}

const MILLISECOND: Duration = Duration::from_millis(1);

fn direct() -> Way {
    Way::Direct(SocketAddr::from(([192, 0, 2, 1], 8288)))
}

impl Bench {
    fn new(carries: u16, round_trip: u64) -> Self {
        let round_trip = Duration::from_millis(round_trip);
        let of = Conditions {
            way: direct(),
            round_trip: Some(round_trip),
            answers: true,
            takes_pieces: true,
            longest: MAX_MTU,
        };
        let (limit, now) = (PacketLimit::default(), Time::ZERO + Duration::from_secs(1));
        let (rng, answers, sent) = (Seeded::new(1), VecDeque::new(), Vec::new());
        Self { limit, of, now, carries, loss: 0, rng, answers, round_trip, sent }
    }

    /// Begins and runs for this many milliseconds, or until the search ends. Returns the time that it took.
    fn settle(&mut self, most: u64) -> u64 {
        self.limit.begin(&self.of, self.now);
        (0..most).find(|_| self.step() && self.limit.step == Step::Settled).unwrap_or(most)
    }

    fn run(&mut self, milliseconds: u64) {
        (0..milliseconds).for_each(|_| {
            self.step();
        });
    }

    /// Advances by a millisecond.
    fn step(&mut self) -> bool {
        while let Some((_, id)) = self.answers.pop_front_if(|(due, _)| *due <= self.now) {
            assert!(self.limit.answer(id, self.now) || self.round_trip > self.of.round_trip.unwrap());
            assert!(!self.limit.answer(id, self.now), "each probe is answered once");
        }
        let mut at_once = 0;
        while let Some(size) = self.limit.poll(&self.of, self.sent.len() as u64, self.now) {
            let id = self.sent.len() as u64;
            self.sent.push((self.now, size));
            at_once += 1;
            assert!(at_once <= 16, "a burst is bounded");
            assert!(self.limit.asked.len() <= KEPT);
            if size <= self.carries && self.rng.below_u64(100) >= self.loss {
                self.answers.push_back((self.now + self.round_trip, id));
            }
        }
        self.now = self.now + MILLISECOND;
        true
    }

    fn sent_since(&self, from: Time) -> usize {
        self.sent.iter().filter(|(when, _)| *when >= from).count()
    }
}

#[test]
fn fault_i10_the_longest_packet_that_passes_is_found() {
    // Links of 1,400 and 1,300 bytes by IPv4 and IPv6, PPPoE by IPv6, 6in4, and lengths between.
    for carries in [1_340, 1_320, 1_240, 1_220, 1_412, 1_405, 1_440, 2_000, 3_940, 8_940, MAX_MTU] {
        for round_trip in [1, 20, 200] {
            let mut bench = Bench::new(carries, round_trip);
            let took = bench.settle(10_000);
            let found = bench.limit.settled().unwrap();
            assert!(found <= carries && carries - found <= PRECISION, "{found} of {carries}");
            assert_eq!((bench.limit.momentary(), bench.limit.finding()), (found, Finding::Answered));
            assert!(bench.sent.len() <= 100, "{} probes for {carries}", bench.sent.len());
            assert!(took <= 2_000 || round_trip == 200, "{took} ms for {carries}");
        }
    }
    // A third of all probes is lost.
    for seed in 0..100 {
        let mut bench = Bench { loss: 33, rng: Seeded::new(seed), ..Bench::new(1_340, 10) };
        bench.settle(10_000);
        let found = bench.limit.settled().unwrap();
        assert!((1_040..=1_340).contains(&found), "{found}");
    }
}

#[test]
fn the_limit_of_common_links_is_used_after_a_round_trip_and_settled_soon() {
    for (link, bound) in
        [(1_124, 900), (1_280, 900), (1_400, 900), (1_420, 900), (1_492, 300), (1_500, 300), (9_000, 300)]
    {
        let carries = link - overhead(direct());
        let mut bench = Bench::new(carries, 10);
        bench.limit.begin(&bench.of, bench.now);
        assert_eq!(bench.limit.momentary(), SAFE_PACKET);
        bench.run(12);
        assert_eq!(bench.limit.momentary(), carries, "a round trip later");
        let took = bench.settle(10_000);
        assert!(bench.limit.settled() == Some(carries) && took <= bound, "{took} ms for {link}");
    }
}

#[test]
fn at_most_one_sized_probe_in_ten_minutes_while_nothing_changes() {
    for carries in [700, 1_240, 1_440, 8_940, MAX_MTU] {
        let mut bench = Bench::new(carries, 10);
        bench.settle(10_000);
        let from = bench.now;
        bench.run(6_000_000);
        assert!(bench.sent_since(from) <= 10, "{}", bench.sent_since(from));
        assert_eq!(bench.limit.settled().map(|found| carries - found < PRECISION), Some(true));
    }
}

#[test]
fn a_link_that_carries_more_is_used_within_ten_minutes() {
    let mut bench = Bench::new(1_440, 10);
    bench.settle(10_000);
    bench.carries = 8_940;
    bench.run(605_000);
    assert_eq!(bench.limit.settled(), Some(8_940));
}

#[test]
fn fault_i1_a_path_that_shrinks_carries_safe_packets_at_once_and_its_limit_is_found() {
    for (carries, before) in [(1_240, 1_440), (1_340, 8_940), (1_064, 1_440)] {
        let mut bench = Bench::new(before, 10);
        bench.settle(10_000);
        bench.carries = carries;
        bench.limit.recheck(bench.now);
        assert_eq!((bench.limit.momentary(), bench.limit.settled()), (SAFE_PACKET, Some(before)));
        bench.run(200);
        assert!(bench.limit.momentary() > SAFE_PACKET && bench.limit.momentary() <= carries);
        bench.settle(2_000);
        let found = bench.limit.settled().unwrap();
        assert!(found <= carries && carries - found <= PRECISION && bench.limit.take_lowered());
    }
}

#[test]
fn fault_i1_random_loss_of_long_packets_does_not_shrink_the_limit() {
    let (mut shrunk, mut remain) = (0, 0);
    for seed in 0..500 {
        let mut bench = Bench { rng: Seeded::new(seed), ..Bench::new(1_440, 10) };
        bench.settle(10_000);
        bench.loss = 30;
        for _ in 0..10 {
            bench.limit.recheck(bench.now);
            bench.run(1_000);
        }
        shrunk += usize::from(bench.limit.settled() != Some(1_440));
        // Those that do are soon what they were.
        bench.run(120_000);
        remain += usize::from(bench.limit.settled() != Some(1_440));
    }
    assert!(shrunk <= 10 && remain <= 1, "{shrunk} and then {remain} of 500");
}

#[test]
fn a_path_that_shrank_is_asked_for_more_ever_less_often() {
    let mut bench = Bench::new(1_440, 10);
    bench.settle(10_000);
    bench.carries = 1_240;
    bench.limit.recheck(bench.now);
    bench.run(1_000);
    let from = bench.now;
    bench.run(3_600_000);
    let times: Vec<u64> =
        bench.sent.iter().filter(|(at, _)| *at >= from).map(|(at, _)| at.since(from).as_secs()).collect();
    let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!((times[0] <= 5, &gaps[..4]), (true, &[20, 80, 320, 600][..]), "{times:?}");
    assert!(gaps[4..].iter().all(|gap| *gap == 600), "{times:?}");
}

#[test]
fn fault_d1_a_change_of_the_network_finds_a_longer_limit_at_once() {
    let mut bench = Bench::new(1_220, 10);
    bench.settle(10_000);
    // After losses the present size is enough.
    bench.carries = 8_940;
    bench.limit.recheck(bench.now);
    bench.run(2_000);
    assert_eq!(bench.limit.settled(), Some(1_220));
    bench.limit.handle_network_change(bench.now);
    bench.run(2_000);
    assert_eq!((bench.limit.settled(), bench.limit.take_lowered()), (Some(8_940), false));
    // Where nothing longer passes, a few probes show it.
    let from = bench.now;
    bench.limit.handle_network_change(bench.now);
    bench.run(2_000);
    assert_eq!(bench.limit.settled(), Some(8_940));
    assert!(bench.sent_since(from) <= 10, "{}", bench.sent_since(from));
    bench.carries = 1_220;
    bench.limit.handle_network_change(bench.now);
    bench.run(5_000);
    assert_eq!((bench.limit.settled(), bench.limit.take_lowered()), (Some(1_220), true));
}

#[test]
fn fault_i1_an_answer_to_an_earlier_probe_does_not_prove_the_present_size() {
    let mut bench = Bench::new(1_440, 10);
    bench.settle(10_000);
    let (id, old) = (1_000_000, bench.now);
    bench.limit.asked.push_back((id, 1_440, old));
    bench.limit.recheck(bench.now);
    assert!(!bench.limit.answer(id, bench.now));
    assert_eq!(bench.limit.momentary(), SAFE_PACKET);
}

#[test]
fn fault_i2_a_path_below_the_safe_packet_carries_pieces() {
    for carries in [516, 640, 700, 850, 996] {
        let mut bench = Bench::new(carries, 10);
        bench.settle(5_000);
        let found = bench.limit.settled().unwrap();
        assert!(found <= carries && carries - found <= PRECISION, "{found} of {carries}");
        // It shrinks further, and grows again.
        bench.carries = 510;
        bench.limit.recheck(bench.now);
        assert_eq!(bench.limit.momentary(), SHORTEST);
        bench.run(5_000);
        assert!(bench.limit.settled().unwrap() <= 510);
        bench.carries = 1_440;
        bench.run(700_000);
        assert_eq!(bench.limit.settled(), Some(1_440));
    }
}

#[test]
fn a_peer_that_answers_no_sized_probe_keeps_its_length() {
    for (takes_pieces, kept) in [(false, DEFAULT_MTU), (true, SHORTEST)] {
        let mut bench = Bench::new(0, 10);
        bench.of.takes_pieces = takes_pieces;
        bench.settle(5_000);
        assert_eq!((bench.limit.settled(), bench.limit.finding()), (Some(kept), Finding::Unanswered));
        let from = bench.now;
        bench.run(3_000_000);
        assert!(bench.sent_since(from) <= 10 + 5, "{}", bench.sent_since(from));
        // The path carries more: only the search had failed.
        bench.carries = 1_440;
        bench.run(610_000);
        assert_eq!((bench.limit.settled(), bench.limit.finding()), (Some(1_440), Finding::Answered));
    }
}

#[test]
fn fault_i3_only_answers_inside_the_session_change_the_limit() {
    // No input of this machine tells of an ICMP error, and an answer counts only if it repeats the id of a probe that waits.
    let mut bench = Bench::new(1_440, 10);
    bench.settle(10_000);
    for id in 1_000..2_000 {
        assert!(!bench.limit.answer(id, bench.now));
    }
    assert_eq!((bench.limit.settled(), bench.limit.momentary()), (Some(1_440), 1_440));
}

#[test]
fn nothing_is_concluded_while_short_probes_are_lost() {
    let mut bench = Bench::new(1_440, 10);
    bench.settle(10_000);
    (bench.carries, bench.of.answers) = (0, false);
    bench.limit.recheck(bench.now);
    bench.run(5_000);
    assert_eq!(bench.limit.settled(), Some(1_440));
    assert!(!bench.limit.take_lowered());
    (bench.carries, bench.of.answers) = (1_440, true);
    bench.run(3_000);
    assert_eq!((bench.limit.settled(), bench.limit.momentary()), (Some(1_440), 1_440));
}

#[test]
fn late_answers_count() {
    // The round-trip time is much longer than the measured one: a queue fills.
    let mut bench = Bench::new(1_440, 800);
    bench.of.round_trip = Some(Duration::from_millis(5));
    bench.run(0);
    bench.settle(100);
    bench.run(20_000);
    assert_eq!((bench.limit.settled(), bench.limit.finding()), (Some(1_440), Finding::Answered));
}

#[test]
fn the_users_limit_is_the_longest_that_is_looked_for() {
    let mut bench = Bench::new(9_000, 10);
    bench.of.longest = 1_390;
    bench.settle(5_000);
    bench.run(1_000_000);
    assert_eq!(bench.limit.settled(), Some(1_390));
    assert!(bench.sent.iter().all(|(_, size)| *size <= 1_390));
}

#[test]
fn a_candidate_that_is_back_is_searched_again_and_a_change_is_told_once() {
    let mut bench = Bench::new(1_440, 10);
    assert_eq!(bench.limit.poll_change(), None);
    bench.settle(5_000);
    assert_eq!(bench.limit.poll_change(), None, "a first limit of the usual size");
    bench.limit.reset();
    assert_eq!((bench.limit.momentary(), bench.limit.settled()), (SAFE_PACKET, None));
    bench.settle(5_000);
    assert_eq!(bench.limit.poll_change(), None, "the same limit as before");
    bench.carries = 1_340;
    bench.limit.recheck(bench.now);
    bench.run(5_000);
    assert_eq!((bench.limit.poll_change(), bench.limit.poll_change()), (Some(Some(1_340)), None));
    let mut narrow = Bench::new(1_340, 10);
    narrow.settle(5_000);
    assert_eq!((narrow.limit.poll_change(), narrow.limit.poll_change()), (Some(Some(1_340)), None));
}

#[test]
fn the_overhead_of_a_way_counts_its_first_hop() {
    let relay = |relay| Way::Relayed { relay, id: 1 };
    let v6 = SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 8288));
    let v4 = SocketAddr::from(([192, 0, 2, 1], 8288));
    let ways = [Way::Direct(v4), Way::Direct(v6), relay(v4), relay(v6)];
    assert_eq!(ways.map(overhead), [60, 80, 68, 88]);
    // An underlay of 1,124 bytes carries safe packets whichever way it is used.
    assert!(ways.iter().all(|way| 1_124 - overhead(*way) >= SAFE_PACKET));
    assert!(ways.iter().all(|way| sizes::first(*way, None, MAX_MTU).len() <= 16));
    assert!(sizes::between(1_000, 1_008).is_empty() && sizes::between(1_000, 1_020) == [1_008, 1_016]);
}
