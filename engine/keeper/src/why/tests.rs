use std::net::SocketAddr;
use std::time::Duration;

use taut_path::Guessed;

use super::*;
use crate::api::{PathStatus, RelayVia, WebSocketStatus};
use crate::metrics;

const RELAY: &str = "203.0.113.9:3478";

fn way(way: Way) -> WayReport {
    WayReport {
        way,
        origins: Origins { listed: true, said: true, ..Origins::default() },
        in_use: false,
        known_for: Duration::from_secs(60),
        proven_for: None,
        down: None,
        suspected: false,
        sent: 20,
        answered: 0,
        answered_elsewhere: 0,
        asked: 0,
        heard_ago: None,
        refused: 0,
        round_trip: None,
        loss: None,
        seen_as: None,
        family: true,
        asleep: false,
    }
}

fn endpoint(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn report(verdict: Verdict) -> Report {
    let relayed = Way::Relayed { relay: endpoint(RELAY), id: 1 };
    Report {
        way: Some(relayed),
        for_long: None,
        verdict,
        our_nat: Nat::Cone,
        their_nat: Nat::Sequential,
        ways: vec![
            WayReport { in_use: true, proven_for: Some(Duration::ZERO), loss: Some(25), ..way(relayed) },
            way(Way::Direct(endpoint("198.51.100.1:1"))),
        ],
    }
}

/// A relayed peer and a bound relay, and what `change` makes of that.
fn why(report: Option<Report>, change: impl FnOnce(&mut PeerStatus, &mut Vec<RelayStatus>, &mut bool)) -> Why {
    let status = metrics::tests::sample();
    let (mut peer, mut relays, mut trying) = (status.peers[0].clone(), status.relays, false);
    peer.path = PathStatus::relayed("r1");
    (relays[0].name, relays[0].endpoints) = (String::from("r1"), vec![endpoint(RELAY)]);
    (relays[0].via, relays[0].websocket) = (Some(RelayVia::Udp), None);
    change(&mut peer, &mut relays, &mut trying);
    explain(Evidence { peer: &peer, report, trying, ours: None, relays: &relays })
}

#[test]
fn a_relayed_peer_hears_what_the_node_judged() {
    let told = why(Some(report(Verdict::BothHard)), |_, _, _| {});
    assert_eq!(told.cause.as_deref(), Some("both-symmetric"));
    assert_eq!(told.said[0], "Packets to n2 go by the relay r1, which cannot read them.");
    assert_eq!(
        told.said[1],
        "Symmetric NAT on both sides; neither can tell the other its port, and there are too many pairs of ports to guess."
    );
    assert!(told.mend[0].starts_with("On one side is enough: ") && told.mend[0].ends_with('.'), "{:?}", told.mend);
    assert_eq!((told.theirs, told.ways.len()), (NatKind::Symmetric, 2));
    let [by_relay, straight] = &told.ways[..] else { panic!("{told:?}") };
    assert_eq!((by_relay.relay.as_deref(), by_relay.state.as_str(), by_relay.loss), (Some("r1"), "in-use", Some(0.25)));
    assert_eq!((straight.relay.as_deref(), straight.state.as_str(), straight.sent), (None, "silent", 20));
    assert_eq!(straight.known_from, ["map", "peer"]);
}

#[test]
fn a_relay_that_is_reached_by_websocket_is_told_with_the_reason() {
    let bridge = endpoint("127.0.0.1:40000");
    let mut judged = report(Verdict::Blocked { ours: true });
    judged.ways[0].way = Way::Relayed { relay: bridge, id: 1 };
    let told = why(Some(judged), |_, relays, _| {
        relays[0].via = Some(RelayVia::Websocket);
        relays[0].websocket = Some(WebSocketStatus { open: true, local: Some(bridge), ..WebSocketStatus::default() });
    });
    let by = "Packets to n2 go by the relay r1, which cannot read them; it is reached by WebSocket, because by UDP it does not answer.";
    assert_eq!((told.said[0].as_str(), told.cause.as_deref()), (by, Some("udp-blocked")));
    assert_eq!(told.ways[0].relay.as_deref(), Some("r1"));
}

#[test]
fn a_direct_path_needs_no_reason() {
    let told = why(Some(report(Verdict::Direct)), |peer, _, _| {
        peer.path = PathStatus::direct(Some(endpoint("198.51.100.1:1")));
    });
    assert_eq!((told.cause, told.mend.len()), (None, 0));
    assert_eq!(told.said, ["Packets to n2 go straight to 198.51.100.1:1."]);
}

#[test]
fn who_is_not_reached_hears_what_is_missing() {
    let cause = |verdict: Option<Verdict>, change: &dyn Fn(&mut PeerStatus, &mut Vec<RelayStatus>, &mut bool)| {
        let told = why(verdict.map(report), |peer, relays, trying| {
            peer.path = PathStatus::default();
            change(peer, relays, trying);
        });
        assert_eq!(told.said[0], "There is no path to n2.");
        assert!(told.said.len() == 2 && !told.mend.is_empty(), "{told:?}");
        told.cause.unwrap()
    };
    let unreachable = Some(Verdict::Unreachable);
    assert_eq!(cause(unreachable, &|_, _, _| {}), "unreachable");
    assert_eq!(cause(unreachable, &|peer, _, _| peer.online = Some(false)), "offline");
    assert_eq!(cause(unreachable, &|_, relays, _| relays.clear()), "no-relay");
    assert_eq!(cause(unreachable, &|_, relays, _| relays[0].state = RelayState::Unreachable), "relay-unreachable");
    assert_eq!(cause(Some(Verdict::Asleep), &|_, _, _| {}), "asleep");
    assert_eq!(
        cause(Some(Verdict::Asleep), &|_, _, trying| *trying = true),
        "unreachable",
        "handshakes are sent in vain"
    );
    assert_eq!(cause(None, &|_, _, _| {}), "asleep");
    assert_eq!(cause(None, &|_, _, trying| *trying = true), "unreachable", "a native peer");
}

#[test]
fn every_verdict_becomes_sentences() {
    for verdict in [
        Verdict::Asleep,
        Verdict::Looking,
        Verdict::NoCandidates,
        Verdict::Blocked { ours: true },
        Verdict::OneHard { ours: false, guessed: Guessed::default() },
        Verdict::NoCommonFamily,
        Verdict::OneWay,
        Verdict::Died,
        Verdict::Poor,
        Verdict::Filtered,
    ] {
        let told = why(Some(report(verdict)), |_, _, _| {});
        assert_eq!(told.cause.as_deref(), Some(verdict.name()));
        for line in told.said.iter().chain(&told.mend) {
            let first = line.chars().next().unwrap();
            assert!(line.ends_with('.') && first.is_uppercase(), "{line}");
        }
    }
}
