//! What two ends report of their paths, in which order, and for which reasons.

use super::*;
use crate::reasons::DownCause;

/// Takes the events of one end since the last call.
fn events(world: &mut TestNetwork, side: usize) -> Vec<PathEvent> {
    std::mem::take(&mut world.ends[side].events)
}

#[test]
fn a_direct_path_is_reported_when_it_is_proven_suspected_and_lost() {
    let mut world = talking([NatBehaviour::Open, NatBehaviour::Open], 9);
    let (direct, relay) = (world.way(0).unwrap(), relay_of(0));
    let changed = |from, to, reason| PathEvent::PathChanged { from, to, reason };
    let begun = events(&mut world, 0);
    let changes: Vec<_> = begun.iter().filter(|event| matches!(event, PathEvent::PathChanged { .. })).collect();
    let expected =
        [changed(None, relay, PathChangeReason::First), changed(Some(relay), direct, PathChangeReason::DirectProven)];
    assert_eq!(changes, expected.iter().collect::<Vec<_>>());
    let proven = begun.iter().position(|event| *event == PathEvent::CandidateProven { way: direct });
    let taken = begun.iter().position(|event| *event == expected[1]);
    assert!(proven < taken, "the cause comes first: {begun:?}");

    world.run(Duration::from_secs(20));
    assert_eq!(events(&mut world, 0), [], "nothing changes");

    (0..2).for_each(|side| world.direct[side].up = false);
    world.run(Duration::from_secs(1));
    let lost = [
        PathEvent::Suspected { way: direct, reason: Suspicion::DataUnacknowledged },
        PathEvent::CandidateLost { way: direct, reason: DownCause::Silent },
        changed(Some(direct), relay, PathChangeReason::Down(DownCause::Silent)),
    ];
    assert_eq!(events(&mut world, 0), lost);
}

#[test]
fn an_idle_peer_is_reported_once() {
    let mut world = talking([NatBehaviour::Open, NatBehaviour::Open], 9);
    let direct = world.way(0).unwrap();
    world.flow = None;
    world.run(Duration::from_secs(200));
    events(&mut world, 0);
    world.run(Duration::from_secs(200));
    let (relay, reason) = (relay_of(0), PathChangeReason::Idle);
    let idle = [
        PathEvent::PeerIdle { after: pace::IDLE_AFTER },
        PathEvent::PathChanged { from: Some(direct), to: relay, reason },
    ];
    assert_eq!(events(&mut world, 0), idle);
    world.run(Duration::from_secs(4_000));
    assert_eq!(events(&mut world, 0), []);
}

#[test]
fn a_relay_that_is_withdrawn_and_a_host_without_the_family_are_the_reasons_that_are_given() {
    let (there, families) = (SocketAddr::from(([192, 0, 2, 1], 8288)), Families { v4: false, v6: true });
    let last = |paths: &mut Paths| std::iter::from_fn(|| paths.next_event()).last();
    let [first, second, direct] = [relay_of(0), relay_of(1), Way::Direct(there)];
    let mut paths = Paths::new(Arc::from([]), Families::default());
    paths.set_relays(&[first, second], at(0));
    paths.handle_session_begun(Some(first), at(0));
    paths.set_relays(&[second], at(10));
    let changed = |from, to, reason| Some(PathEvent::PathChanged { from: Some(from), to, reason });
    assert_eq!(last(&mut paths), changed(first, second, PathChangeReason::Withdrawn));
    paths.handle_session_begun(Some(direct), at(20));
    assert_eq!(last(&mut paths), changed(second, direct, PathChangeReason::DirectProven));
    paths.handle_network_change(families, at(30));
    assert_eq!(last(&mut paths), changed(direct, second, PathChangeReason::NoLongerProven));
}

#[test]
fn a_port_search_and_the_peers_nat_are_reported() {
    let mut world = TestNetwork::new([NatBehaviour::Symmetric, NatBehaviour::PortRestricted], 1);
    world.flow = Some(Duration::from_millis(20));
    world.begin();
    world.run_until(at(60_000), TestNetwork::both_direct);
    world.run(Duration::from_secs(70));
    let [asking, asked] = [0, 1].map(|side| events(&mut world, side));
    let opened = |event: &PathEvent| matches!(event, PathEvent::SearchOpened { round: 1, sockets: 1.., .. });
    assert!(asking.iter().any(opened), "{asking:?}");
    assert!(asked.iter().any(|event| matches!(event, PathEvent::SearchRequested { ports: 1.., .. })), "{asked:?}");
    assert!(asked.contains(&PathEvent::PeerNatChanged { from: Nat::Unknown, to: Nat::Symmetric }), "{asked:?}");
}
