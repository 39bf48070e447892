use super::*;
use crate::contract::FlowLoad;

const PEER: PeerId = PeerId(1);
const OTHER: PeerId = PeerId(2);

fn at(milliseconds: u64) -> Time {
    Time::ZERO + Duration::from_millis(1_000_000 + milliseconds)
}

/// The report of a lane that was busy for `busy` thousandths and carried these datagrams of flows, and `others`.
fn load(busy: u16, flows: &[(PeerId, u16, u32)], others: u64) -> LaneLoad {
    let datagrams = flows.iter().map(|(_, _, count)| u64::from(*count)).sum::<u64>() + others;
    let flows =
        flows.iter().map(|(peer, flow, datagrams)| FlowLoad { peer: *peer, flow: *flow, datagrams: *datagrams });
    LaneLoad { busy, span: Duration::from_millis(100), datagrams, flows: flows.collect() }
}

fn outputs(auto: &mut AutoLanes) -> Vec<AutoOutput> {
    std::iter::from_fn(|| auto.poll_output()).collect()
}

/// Reports the same load on the first lane every 100 ms, and returns what comes of it and when.
fn report(auto: &mut AutoLanes, load: &LaneLoad, from: u64, until: u64) -> Vec<(u64, AutoOutput)> {
    let mut all = Vec::new();
    for now in (from..until).step_by(100) {
        auto.handle_timeout(at(now));
        auto.handle_load(LaneId::FIRST, load, |_| true, at(now));
        all.extend(outputs(auto).into_iter().map(|output| (now, output)));
    }
    all
}

const FOUR: [(PeerId, u16, u32); 4] = [(PEER, 10, 500), (PEER, 11, 500), (PEER, 12, 500), (PEER, 13, 500)];

/// The request for two lanes that spread the flows of [`FOUR`].
fn run_two() -> AutoOutput {
    AutoOutput::Run(best_placement(&FOUR.map(|(_, flow, count)| (flow, count)), 2, Placement::FIRST).unwrap())
}

/// Opens two lanes for [`PEER`] at 1,100 ms.
fn opened() -> AutoLanes {
    let mut auto = AutoLanes::new(2);
    assert_eq!(report(&mut auto, &load(950, &FOUR, 0), 0, 1_200), [(1_000, run_two())]);
    auto.running(2, at(1_100));
    assert_eq!(outputs(&mut auto), [AutoOutput::Spread { peer: PEER, busy: 950 }]);
    auto
}

/// Reports half of this many datagrams on each of two lanes.
fn both(auto: &mut AutoLanes, datagrams: u32, from: u64, until: u64) -> Vec<AutoOutput> {
    let mut all = Vec::new();
    for now in (from..until).step_by(100) {
        for lane in 0..2 {
            let flows = [(PEER, 10 + u16::from(lane), datagrams / 4), (PEER, 12 + u16::from(lane), datagrams / 4)];
            auto.handle_load(LaneId(lane), &load(800, &flows, 0), |_| true, at(now));
        }
        auto.handle_timeout(at(now));
        all.extend(outputs(auto));
    }
    all
}

#[test]
fn several_heavy_flows_open_lanes_after_a_moment() {
    let auto = opened();
    assert_eq!(auto.state(PEER), AutoState::Wanted);
}

#[test]
fn what_would_not_be_spread_or_is_not_busy_opens_nothing() {
    let cases = [
        ("a single flow", load(1000, &[(PEER, 10, 2_000)], 0)),
        ("one flow with almost everything", load(1000, &[(PEER, 10, 1_700), (PEER, 11, 300)], 0)),
        ("a lane that waits", load(550, &FOUR, 0)),
        ("a peer with a small part", load(1000, &FOUR, 4_000)),
        ("one flow of each of two peers", load(1000, &[(PEER, 10, 1_000), (OTHER, 11, 1_000)], 0)),
    ];
    for (what, load) in cases {
        assert_eq!(report(&mut AutoLanes::new(2), &load, 0, 3_000), [], "{what}");
    }
    assert_eq!(report(&mut AutoLanes::new(1), &load(1000, &FOUR, 0), 0, 3_000), [], "one core");
    let mut auto = AutoLanes::new(2);
    for now in (0..3_000).step_by(100) {
        auto.handle_load(LaneId::FIRST, &load(1000, &FOUR, 0), |_| false, at(now));
    }
    assert_eq!(outputs(&mut auto), [], "a relayed or native peer");
}

#[test]
fn a_short_burst_opens_nothing() {
    let mut auto = AutoLanes::new(2);
    for start in (0..20_000).step_by(2_000) {
        assert_eq!(report(&mut auto, &load(1000, &FOUR, 0), start, start + 1_000), []);
    }
    // Two reports of little load start the second again, and one does not.
    for start in (20_000..40_000).step_by(1_100) {
        assert_eq!(report(&mut auto, &load(1000, &FOUR, 0), start, start + 900), []);
        assert_eq!(report(&mut auto, &load(500, &FOUR, 0), start + 900, start + 1_100), []);
    }
    assert_eq!(report(&mut auto, &load(1000, &FOUR, 0), 50_000, 50_900), []);
    assert_eq!(report(&mut auto, &load(500, &FOUR, 0), 50_900, 51_000), []);
    assert_eq!(report(&mut auto, &load(1000, &FOUR, 0), 51_000, 51_100), [(51_000, run_two())]);
}

#[test]
fn fault_b11_no_peer_and_no_garbage_opens_or_closes_lanes_of_another() {
    // Another peer and senders of garbage keep the lane busy. The peer's few packets would be spread well.
    let few = [(PEER, 10, 100), (PEER, 11, 100), (OTHER, 10, 1_000), (OTHER, 11, 1_000)];
    let mut auto = AutoLanes::new(2);
    let told = report(&mut auto, &load(1000, &few, 0), 0, 1_200);
    assert!(matches!(told[..], [(1_000, AutoOutput::Run(placement))] if placement.lanes() == 2), "{told:?}");
    auto.running(2, at(1_200));
    assert_eq!(outputs(&mut auto), [AutoOutput::Spread { peer: OTHER, busy: 1_000 }]);
    assert_eq!(auto.state(PEER), AutoState::Quiet);
    assert_eq!(report(&mut AutoLanes::new(2), &load(1000, &FOUR, 3_500), 0, 3_000), [], "garbage fills the lane");

    // Lanes that are open stay open, whatever another peer does.
    let mut auto = opened();
    for now in (1_200..20_000).step_by(100) {
        let noise: Vec<_> = (0..16).map(|flow| (OTHER, flow, 400)).chain(FOUR).collect();
        auto.handle_load(LaneId::FIRST, &load(1000, &noise[..], 0), |peer| peer == PEER, at(now));
        auto.handle_load(LaneId(1), &load(900, &FOUR, 0), |peer| peer == PEER, at(now));
        auto.handle_timeout(at(now));
        assert_eq!(outputs(&mut auto), [], "{now}");
    }
}

#[test]
fn lanes_that_carry_more_stay_until_nobody_needs_them() {
    let mut auto = opened();
    assert_eq!(both(&mut auto, 2_600, 1_200, 20_000), []);
    // The transfer ends: 5 s later the peer has one lane, and 3 s after that the threads end.
    let mut told = Vec::new();
    while let Some(due) = auto.poll_timeout() {
        auto.handle_timeout(due);
        told.extend(outputs(&mut auto).into_iter().map(|output| (due, output)));
    }
    let gather = AutoOutput::Gather { peer: PEER, reason: GatherReason::Idle };
    assert_eq!(told, [(at(24_900), gather), (at(27_900), AutoOutput::Run(Placement::FIRST))]);
    auto.running(1, at(28_000));
    assert_eq!((auto.poll_timeout(), auto.state(PEER)), (None, AutoState::Quiet));
}

#[test]
fn a_timeout_that_was_handled_is_over() {
    // The load ends as soon as lanes are open, so they are not needed for longer than the trial lasts.
    let mut auto = opened();
    let mut times = Vec::new();
    while let Some(due) = auto.poll_timeout() {
        auto.handle_timeout(due);
        assert!(auto.poll_timeout().is_none_or(|next| next > due), "due again at {due:?}");
        times.push(due);
        if outputs(&mut auto).contains(&AutoOutput::Run(Placement::FIRST)) {
            auto.running(1, due);
        }
    }
    assert_eq!(times, [at(1_100 + 5_500), at(1_100 + 5_500 + 3_000)]);
}

#[test]
fn one_flow_that_is_left_has_one_lane_after_a_second() {
    let mut auto = opened();
    both(&mut auto, 2_600, 1_200, 8_000);
    // It keeps one of the lanes busy, and its answers come on the other.
    let alone = load(1000, &[(PEER, 10, 2_000)], 0);
    let gather = AutoOutput::Gather { peer: PEER, reason: GatherReason::Idle };
    assert_eq!(report(&mut auto, &alone, 8_000, 9_200)[..], [(8_900, gather)]);
    // If flows begin again at once, the lanes do not change twice within 5 s.
    assert_eq!(report(&mut auto, &load(1000, &FOUR, 0), 9_200, 12_000), [(11_900, AutoOutput::Run(Placement::FIRST))]);
    auto.running(1, at(12_000));
    assert_eq!(report(&mut auto, &load(1000, &FOUR, 0), 12_000, 14_000), [(13_900, run_two())]);
}

#[test]
fn one_flow_that_is_alone_during_the_trial_has_one_lane_after_it() {
    let mut auto = opened();
    both(&mut auto, 2_600, 1_200, 3_000);
    let told = report(&mut auto, &load(1000, &[(PEER, 10, 2_000)], 0), 3_000, 7_000);
    assert_eq!(told, [(6_600, AutoOutput::Gather { peer: PEER, reason: GatherReason::Idle })]);
}

#[test]
fn both_ends_place_the_same_flows_alike() {
    let mut state = 1_u32;
    let mut draw = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 16
    };
    for count in 2..=8 {
        let mut differ = 0;
        for _ in 0..500 {
            // Flows with up to twice the load of others, which the two nodes count with an error of a fifth.
            let flows: Vec<(u16, u32)> = (0..count).map(|_| (draw() as u16, 1_000 + draw() % 1_000)).collect();
            let mut seen = || {
                let flows: Vec<_> =
                    flows.iter().map(|(flow, weight)| (*flow, weight * (900 + draw() % 200) / 1_000)).collect();
                best_placement(&flows, 2, Placement::FIRST)
            };
            differ += u32::from(seen() != seen());
        }
        assert!(differ <= 25, "{count} flows: {differ} of 500");
    }
}

#[test]
fn lanes_that_carry_no_more_are_given_back_and_not_tried_again_soon() {
    let mut auto = opened();
    // 2,000 datagrams before, and a twentieth more now.
    let told = both(&mut auto, 2_100, 1_200, 7_000);
    let no_gain = AutoOutput::Gather { peer: PEER, reason: GatherReason::NoGain };
    assert_eq!((told, auto.state(PEER)), (vec![no_gain], AutoState::Blocked));
    // The threads end while the load lasts. Lanes are tried again after 15 s, then after 30 s.
    let mut tried = Vec::new();
    for now in (7_000..100_000).step_by(100) {
        auto.handle_timeout(at(now));
        auto.handle_load(LaneId::FIRST, &load(950, &FOUR, 0), |_| true, at(now));
        for output in outputs(&mut auto) {
            if let AutoOutput::Run(placement) = output {
                auto.running(placement.lanes(), at(now));
                tried.push((now / 1_000, placement.lanes()));
            }
        }
    }
    let times: Vec<u64> = tried.iter().filter(|(_, lanes)| *lanes == 2).map(|(now, _)| *now).collect();
    assert!(times.len() >= 2 && (20..24).contains(&times[0]), "{tried:?}");
    assert!((35..40).contains(&(times[1] - times[0])), "{tried:?}");
}

/// Reports flows of [`PEER`] from `from` to `until`, in milliseconds. Each lane that the peer has carries 2,000 datagrams per report, shared by the flows that it
/// reads. Lanes that the rule asks for run at once. Returns each step that the rule asked for, and its time.
fn spread(auto: &mut AutoLanes, flows: &[u16], from: u64, until: u64) -> Vec<(u64, AutoOutput)> {
    let mut told = Vec::new();
    for now in (from..until).step_by(100) {
        let is_spread = auto.peers.get(&PEER).is_some_and(Watched::wants_lanes);
        let placement = if is_spread { auto.running } else { Placement::FIRST };
        for lane in (0..placement.lanes()).map(LaneId) {
            let own: Vec<_> = flows.iter().filter(|flow| placement.lane(**flow) == lane).collect();
            let shared: Vec<_> = own.iter().map(|flow| (PEER, **flow, 2_000 / own.len() as u32)).collect();
            auto.handle_load(lane, &load(950, &shared, 0), |_| true, at(now));
        }
        auto.handle_timeout(at(now));
        while let Some(output) = auto.poll_output() {
            told.push((now, output));
            if let AutoOutput::Run(placement) = output {
                auto.running(placement.lanes(), at(now));
            }
        }
    }
    told
}

/// Flows with numbers that [`Placement`] spreads, as the steering's numbers are: 16 bits of a hash.
fn many() -> Vec<u16> {
    (1..=16_u16).map(|number| number.wrapping_mul(0x9e37)).collect()
}

#[test]
fn lanes_that_are_too_few_for_new_flows_give_way_to_more() {
    let mut auto = AutoLanes::new(16);
    let all = many();
    let told = spread(&mut auto, &all[..2], 0, 20_000);
    assert!(
        matches!(told[..], [(1_000, AutoOutput::Run(two)), (1_000, AutoOutput::Spread { .. })] if two.lanes() == 2)
    );
    // 3 s later the lanes close, the threads end 3 s after that, and 5 s after the lanes closed the peer may have other lanes.
    let told = spread(&mut auto, &all, 20_000, 40_000);
    let gather = AutoOutput::Gather { peer: PEER, reason: GatherReason::TooFew };
    assert_eq!(told[..2], [(23_000, gather), (26_000, AutoOutput::Run(Placement::FIRST))]);
    assert!(
        matches!(told[2..], [(28_000, AutoOutput::Run(more)), (28_000, AutoOutput::Spread { .. })] if more.lanes() >= 8)
    );
    assert_eq!(spread(&mut auto, &all, 40_000, 200_000), [], "they are enough");
}

#[test]
fn lanes_do_not_give_way_for_a_short_time_or_often() {
    let all = many();
    let mut auto = AutoLanes::new(16);
    spread(&mut auto, &all[..2], 0, 20_000);
    assert_eq!(auto.running.lanes(), 2);
    assert_eq!(spread(&mut auto, &all[..6], 20_000, 22_900), [], "a short time");
    assert_eq!(spread(&mut auto, &all[..2], 22_900, 30_000), []);
    let changes = |told: &[(u64, AutoOutput)]| {
        let is_too_few = |output| matches!(output, AutoOutput::Gather { reason: GatherReason::TooFew, .. });
        told.iter().filter(|(_, output)| is_too_few(*output)).count()
    };
    assert_eq!(changes(&spread(&mut auto, &all[..4], 30_000, 50_000)), 1);
    assert_eq!(changes(&spread(&mut auto, &all, 50_000, 90_000)), 0, "a minute has not passed");
    assert_eq!(changes(&spread(&mut auto, &all, 90_000, 110_000)), 1);
}

#[test]
fn lanes_that_cannot_become_more_give_way_ever_more_rarely() {
    let all = many();
    let mut auto = AutoLanes::new(16);
    spread(&mut auto, &all[..2], 0, 20_000);
    let mut given_back = Vec::new();
    for (begin, end) in (20..1_200).map(|second| (second * 1_000, (second + 1) * 1_000)) {
        // All flows want more than two lanes; while one lane runs, only two of them are seen.
        let seen = if auto.running.lanes() > 1 { &all[..] } else { &all[..2] };
        let told = spread(&mut auto, seen, begin, end);
        let is_too_few = |output| matches!(output, AutoOutput::Gather { reason: GatherReason::TooFew, .. });
        given_back.extend(told.iter().filter(|(_, output)| is_too_few(*output)).map(|(at, _)| at / 1_000));
    }
    let pauses: Vec<u64> = given_back.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(pauses.len() >= 3 && pauses.windows(2).all(|two| two[1] >= 2 * two[0] - 15), "{given_back:?}");
}

#[test]
fn a_peer_whose_lanes_are_too_few_does_not_close_those_of_another() {
    let all = many();
    let mut auto = AutoLanes::new(16);
    spread(&mut auto, &all[..2], 0, 20_000);
    let others = [(OTHER, all[0], 500), (OTHER, all[1], 500)];
    for now in (20_000..40_000).step_by(100) {
        let flows: Vec<_> = all.iter().map(|flow| (PEER, *flow, 500)).collect();
        for lane in 0..2 {
            auto.handle_load(LaneId(lane), &load(1_000, &flows, 0), |_| true, at(now));
            if now >= 20_000 {
                auto.handle_load(LaneId(lane), &load(1_000, &others, 0), |_| true, at(now + 50));
            }
        }
        auto.handle_timeout(at(now));
        let told = outputs(&mut auto);
        assert!(now < 23_000 || told.is_empty(), "{now}: {told:?}");
        assert!(!told.iter().any(|output| matches!(output, AutoOutput::Gather { .. })), "{now}: {told:?}");
    }
}

#[test]
fn the_load_of_another_peer_closes_no_lanes_to_open_more() {
    let all = many();
    let mut auto = AutoLanes::new(16);
    spread(&mut auto, &all[..2], 0, 20_000);
    // All flows of the peer take half of each lane's time, and another peer, which has no lanes open, takes the rest.
    let flows: Vec<_> = all.iter().map(|flow| (PEER, *flow, 500)).collect();
    let own = 500 * all.len() as u64;
    for now in (20_000..40_000).step_by(100) {
        for lane in 0..2 {
            auto.handle_load(LaneId(lane), &load(1_000, &flows, own), |_| true, at(now));
        }
        auto.handle_timeout(at(now));
        assert_eq!(outputs(&mut auto), [], "{now}");
    }
}

#[test]
fn a_refusal_is_not_repeated_at_once() {
    let mut auto = AutoLanes::new(2);
    assert_eq!(report(&mut auto, &load(950, &FOUR, 0), 0, 1_100), [(1_000, run_two())]);
    auto.refused(at(1_100));
    assert_eq!(report(&mut auto, &load(950, &FOUR, 0), 1_100, 15_000), []);
    assert_eq!(auto.state(PEER), AutoState::Blocked);
}

#[test]
fn the_number_of_lanes_follows_the_flows_and_the_cores() {
    let even = |count: u16| (0..count).map(|flow| (flow, 100)).collect::<Vec<_>>();
    let best_count = |flows: &[(u16, u32)], most| {
        best_placement(flows, most, Placement::FIRST).map_or(1, |placement| placement.lanes())
    };
    assert_eq!([1, 2, 3, 4].map(|count| best_count(&even(count), 16)), [1, 2, 3, 4]);
    assert!((6..=16).contains(&best_count(&even(8), 16)) && best_count(&even(16), 16) > 8);
    assert_eq!(best_count(&even(16), 4), 4);
    assert_eq!(best_count(&[(0, 1_000), (1, 100), (2, 100)], 8), 1, "one flow dominates");
    assert_eq!(best_count(&[(0, 1_000), (1, 1_000), (2, 50), (3, 50)], 8), 2, "small flows need no lane of their own");
}

#[test]
fn flows_that_fall_on_one_lane_are_placed_anew_when_lanes_open_again() {
    let mut auto = opened();
    let AutoOutput::Run(placement) = run_two() else { panic!() };
    // Other flows begin, all of one lane.
    let unlucky: Vec<_> =
        (100..).filter(|flow| placement.lane(*flow) == LaneId(1)).map(|flow| (PEER, flow, 500)).take(4).collect();
    let mut told = Vec::new();
    for now in (1_200..20_000).step_by(100) {
        auto.handle_load(LaneId::FIRST, &load(1000, &unlucky, 0), |_| true, at(now));
        auto.handle_timeout(at(now));
        for output in outputs(&mut auto) {
            if let AutoOutput::Run(placement) = output {
                auto.running(placement.lanes(), at(now));
                told.push((now, placement));
            }
        }
    }
    let counts: Vec<u8> = told.iter().map(|(_, placement)| placement.lanes()).collect();
    assert_eq!(counts, [1, 2], "{told:?}");
    assert_eq!(told[1].1.busiest(&unlucky.iter().map(|(_, flow, count)| (*flow, *count)).collect::<Vec<_>>()), 1_000);
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut auto = AutoLanes::new(16);
    for peer in 0..10_000 {
        let flows = [(PeerId(peer), 1, 1_000), (PeerId(peer), 2, 1_000)];
        auto.handle_load(LaneId::FIRST, &load(1000, &flows, 0), |_| true, at(u64::from(peer) * 100));
    }
    assert!(auto.peers.len() <= 4, "{}", auto.peers.len());
    auto.forget(PeerId(9_999), at(1_000_000));
}
