use std::net::SocketAddr;
use std::time::Duration;

use taut_path::{EndpointLocation, LimitCause, SearchProgress, WayLimit};

use super::*;
use crate::api::{PathStatus, RelayVia, WebSocketStatus};
use crate::metrics;

const RELAY: &str = "203.0.113.9:3478";

fn way(way: Way) -> WayReport {
    WayReport {
        way,
        origins: Origins { listed: true, reported: true, ..Origins::default() },
        in_use: false,
        known_for: Duration::from_secs(60),
        proven_for: None,
        down: None,
        suspected: false,
        sent: 20,
        answered: 0,
        answered_elsewhere: 0,
        peer_probes: 0,
        heard_ago: None,
        refused: 0,
        round_trip: None,
        loss: None,
        fits: None,
        limit: None,
        seen_as: None,
        family: true,
        place: EndpointLocation::Public,
        asleep: false,
    }
}

fn endpoint(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn report(verdict: Verdict) -> PathReport {
    let relayed = Way::Relayed { relay: endpoint(RELAY), id: 1 };
    PathReport {
        way: Some(relayed),
        for_long: None,
        verdict,
        local_nat: Nat::Cone,
        peer_nat: Nat::Sequential,
        ways: vec![
            WayReport { in_use: true, proven_for: Some(Duration::ZERO), loss: Some(25), ..way(relayed) },
            way(Way::Direct(endpoint("198.51.100.1:1"))),
        ],
    }
}

/// The facts that a test can change: the peer, the relays, waiting packets, the coordinator's connection, and the answers of another peer.
struct Scene {
    peer: PeerStatus,
    relays: Vec<RelayStatus>,
    wanted: bool,
    connected: bool,
    others: bool,
}

/// Returns the explanation for a relayed peer and a bound relay, after `change` modified them.
fn why(report: Option<PathReport>, change: impl FnOnce(&mut Scene)) -> Why {
    let status = metrics::tests::sample();
    let (peer, relays) = (status.peers[0].clone(), status.relays);
    let mut scene = Scene { peer, relays, wanted: false, connected: true, others: false };
    scene.peer.path = PathStatus::relayed("r1");
    (scene.relays[0].name, scene.relays[0].endpoints) = (String::from("r1"), vec![endpoint(RELAY)]);
    (scene.relays[0].via, scene.relays[0].websocket) = (Some(RelayVia::Udp), None);
    change(&mut scene);
    let Scene { peer, relays, wanted, connected, others } = scene;
    explain(Evidence { peer: &peer, report, wanted, connected, others, ours: None, relays: &relays })
}

#[test]
fn the_explanation_of_a_relayed_peer_follows_the_verdict() {
    let explanation = why(Some(report(Verdict::BothHard)), |_| {});
    assert_eq!(explanation.cause.as_deref(), Some("both-symmetric"));
    assert_eq!(explanation.said[0], "Packets to n2 go through the relay r1, which cannot read them.");
    assert_eq!(
        explanation.said[1],
        "Symmetric NAT on both sides; neither can tell the other its port, and there are too many pairs of ports to guess."
    );
    assert!(
        explanation.mend[0].starts_with("On one of the two sides: ") && explanation.mend[0].ends_with('.'),
        "{:?}",
        explanation.mend
    );
    assert_eq!((explanation.theirs, explanation.ways.len()), (NatKind::Symmetric, 2));
    let [by_relay, straight] = &explanation.ways[..] else { panic!("{explanation:?}") };
    assert_eq!((by_relay.relay.as_deref(), by_relay.state.as_str(), by_relay.loss), (Some("r1"), "in-use", Some(0.25)));
    assert_eq!((straight.relay.as_deref(), straight.state.as_str(), straight.sent), (None, "silent", 20));
    assert_eq!(straight.known_from, ["map", "peer"]);
}

#[test]
fn a_relay_that_is_reached_by_websocket_is_named_with_the_reason() {
    let bridge = endpoint("127.0.0.1:40000");
    let mut judged = report(Verdict::Blocked { ours: true });
    judged.ways[0].way = Way::Relayed { relay: bridge, id: 1 };
    let explanation = why(Some(judged), |Scene { relays, .. }| {
        relays[0].via = Some(RelayVia::Websocket);
        relays[0].websocket = Some(WebSocketStatus { open: true, local: Some(bridge), ..WebSocketStatus::default() });
    });
    let by = "Packets to n2 go through the relay r1, which cannot read them; the relay is reached by WebSocket, because it does not answer by UDP.";
    assert_eq!((explanation.said[0].as_str(), explanation.cause.as_deref()), (by, Some("udp-blocked")));
    assert_eq!(explanation.ways[0].relay.as_deref(), Some("r1"));
}

#[test]
fn a_direct_path_needs_no_reason() {
    let explanation = why(Some(report(Verdict::Direct)), |Scene { peer, .. }| {
        peer.path = PathStatus::direct(Some(endpoint("198.51.100.1:1")));
    });
    assert_eq!((explanation.cause, explanation.mend.len()), (None, 0));
    assert_eq!(explanation.said, ["Packets to n2 go directly to 198.51.100.1:1."]);
}

#[test]
fn the_explanation_of_an_unreached_peer_names_the_cause() {
    let cause = |verdict: Option<Verdict>, change: &dyn Fn(&mut Scene)| {
        let explanation = why(verdict.map(report), |scene| {
            scene.peer.path = PathStatus::default();
            change(scene);
        });
        assert_eq!(explanation.said[0], "There is no path to n2.");
        assert!(explanation.said.len() == 2 && !explanation.mend.is_empty(), "{explanation:?}");
        explanation.cause.unwrap()
    };
    let asleep = Some(Verdict::Asleep);
    assert_eq!(cause(asleep, &|_| {}), "asleep");
    assert_eq!(cause(asleep, &|scene| scene.wanted = true), "unreachable", "packets wait");
    assert_eq!(cause(None, &|_| {}), "asleep");
    assert_eq!(cause(None, &|scene| scene.wanted = true), "unreachable", "a native peer");
}

#[test]
fn if_no_packet_comes_back_the_cause_is_not_the_nat() {
    let direct = || PathStatus::direct(Some(endpoint("198.51.100.1:1")));
    for path in [PathStatus::default(), PathStatus::relayed("r1"), direct()] {
        let explanation = |change: &dyn Fn(&mut Scene)| {
            why(Some(report(Verdict::Unreachable)), |scene| {
                scene.peer.path = path.clone();
                change(scene);
            })
        };
        let cause = |change: &dyn Fn(&mut Scene)| explanation(change).cause.unwrap();
        assert_eq!(cause(&|_| {}), "unreachable");
        assert_eq!(cause(&|scene| scene.peer.online = Some(false)), "offline");
        assert_eq!(cause(&|scene| scene.relays.clear()), "no-relay");
        let lost = |scene: &mut Scene| scene.relays[0].state = RelayState::Unreachable;
        assert_eq!(cause(&lost), "relay-unreachable");
        let alone = explanation(&|scene| {
            lost(scene);
            (scene.connected, scene.peer.online) = (false, None);
        });
        assert_eq!(alone.cause.as_deref(), Some("no-network"));
        assert!(alone.mend[0].contains("ip route"), "{:?}", alone.mend);
        for (relays, silent) in
            [(true, "either the coordinator nor a relay answers"), (false, "the network has no relay")]
        {
            let explanation = explanation(&|scene| {
                lost(scene);
                (scene.connected, scene.peer.online, scene.others) = (false, None, true);
                scene.relays.retain(|_| relays);
            });
            assert_eq!(explanation.cause.as_deref(), Some("coordinator-unreachable"));
            assert!(
                explanation.said[1].contains(silent) && explanation.said[1].contains("network works"),
                "{:?}",
                explanation.said
            );
            assert!(
                explanation.mend[0].contains("coordinator") && !explanation.mend[0].contains("ip route"),
                "{:?}",
                explanation.mend
            );
        }
        let said = explanation(&|scene| scene.peer.online = Some(true)).said;
        assert!(said[1].contains("Nothing comes back from n2") && said[1].contains("still counts it"), "{said:?}");
    }
}

#[test]
fn every_verdict_becomes_sentences() {
    for verdict in [
        Verdict::Asleep,
        Verdict::Looking,
        Verdict::NoCandidates,
        Verdict::Blocked { ours: true },
        Verdict::OneHard { ours: false, guessed: SearchProgress::default() },
        Verdict::NoCommonFamily { ours_v4: true },
        Verdict::NoHairpin,
        Verdict::Neighbour,
        Verdict::OneWay,
        Verdict::Died,
        Verdict::Poor,
        Verdict::NoData,
        Verdict::TooLong { fits: 1_340 },
        Verdict::Filtered,
    ] {
        let explanation = why(Some(report(verdict)), |_| {});
        assert_eq!(explanation.cause.as_deref(), Some(verdict.name()));
        for line in explanation.said.iter().chain(&explanation.mend) {
            let first = line.chars().next().unwrap();
            assert!(line.ends_with('.') && first.is_uppercase(), "{line}");
        }
    }
}

#[test]
fn fault_i10_a_direct_path_that_answers_no_long_probe_is_reported() {
    let mut long = report(Verdict::TooLong { fits: 1_340 });
    long.ways[1].limit = Some(WayLimit { bytes: 1_340, cause: LimitCause::Unanswered });
    let explanation = why(Some(long), |Scene { peer, .. }| {
        peer.path = PathStatus::direct(Some(endpoint("198.51.100.1:1")));
    });
    assert_eq!((explanation.cause.as_deref(), explanation.ways[1].fits), (Some("mtu"), None));
    assert!(explanation.ways[1].meaning.ends_with("more than 1340 bytes may be lost"), "{explanation:?}");
    assert!(
        explanation.said[0].contains("MTU")
            && explanation.said[0].contains("1340 bytes")
            && explanation.said[0].contains("`--mtu`")
            && explanation.said[1].contains("directly")
            && explanation.mend[0].contains("`--mtu 1280`"),
        "{explanation:?}"
    );
}

#[test]
fn another_peer_counts_as_answering_for_30_s_after_a_direct_packet() {
    let heard = |way_heard: Way, seconds| {
        let ago = Some(Duration::from_secs(seconds));
        answers(&PathReport { ways: vec![WayReport { heard_ago: ago, ..way(way_heard) }], ..report(Verdict::Direct) })
    };
    let direct = Way::Direct(endpoint("198.51.100.1:1"));
    assert!(heard(direct, 0) && heard(direct, 29));
    assert!(!heard(direct, 30), "a path that was quiet for longer says nothing of this host's network now");
    assert!(
        !heard(Way::Relayed { relay: endpoint(RELAY), id: 1 }, 0),
        "what a relay carries shows that the relay answers"
    );
    assert!(!answers(&report(Verdict::Direct)), "nothing was heard");
}
