use taut_agent::api::{Filtering, MappingBehaviour, NatStatus, PathStatus, SCHEMA};

use super::*;

fn way(endpoint: &str, relay: Option<&str>, (sent, answered, heard): (u64, u64, u64), meaning: &str) -> WayStatus {
    let works = answered > 0;
    WayStatus {
        endpoint: endpoint.parse().unwrap(),
        relay: relay.map(String::from),
        known_from: vec![String::from(if relay.is_some() { "relay" } else { "map" })],
        state: String::from(if works { "in-use" } else { "silent" }),
        sent,
        answered,
        answered_elsewhere: 0,
        heard,
        last_heard_s: works.then_some(1.0),
        held_back: 0,
        proven_s: None,
        seen_as: None,
        round_trip_ms: works.then_some(30.0),
        loss: None,
        fits: None,
        mtu: None,
        mtu_cause: None,
        meaning: String::from(meaning),
    }
}

fn session(lanes: u8, limit: &str) -> SessionStatus {
    SessionStatus {
        age_s: 3.0,
        suite: String::from("AES256GCM"),
        lanes_in_use: 1,
        lanes,
        lanes_limit: (!limit.is_empty()).then(|| String::from(limit)),
        established: 1,
    }
}

fn sample() -> Why {
    let seen_as = vec!["203.0.113.1:40000".parse().unwrap()];
    let ours =
        NatStatus::new(MappingBehaviour::AddressAndPortDependent, Filtering::AddressAndPortDependent, None, seen_as);
    Why {
        schema: SCHEMA,
        peer: String::from("n2"),
        id: 2,
        path: PathStatus { since_s: Some(130.0), loss: Some(0.0), ..PathStatus::relayed("r1") },
        round_trip_ms: Some(30.0),
        cause: Some(String::from("both-symmetric")),
        said: vec![String::from("Packets go by r1."), String::from("Both NATs are symmetric.")],
        mend: vec![String::from("Switch on UPnP.")],
        ours: Some(ours),
        theirs: NatKind::Symmetric,
        session: Some(session(1, "no-gain")),
        ways: vec![
            way("192.0.2.9:3478", Some("r1"), (4, 4, 3), "data goes this way"),
            way("198.51.100.1:50000", None, (9, 0, 0), "no answer"),
        ],
    }
}

#[test]
fn sentences_then_a_table() {
    assert_eq!(
        render(&sample()),
        "\
n2: relayed by r1, 30.0 ms, 0 % lost, for 2 min

Packets go by r1.
Both NATs are symmetric.

What to do:
- Switch on UPnP.

this host:  symmetric NAT, seen as 203.0.113.1:40000
n2:         symmetric NAT
lanes:      1: more were tried a short time ago and carried no more
cipher:     AES256GCM

WAY                 KNOWN FROM  SENT  ANSWERED  HEARD  LAST HEARD  ROUND TRIP  MEANING
relay r1            relay       4     4         3      1 s ago     30.0 ms     data goes this way
198.51.100.1:50000  map         9     0         0      never       -           no answer
"
    );
}

#[test]
fn unknown_values_are_left_out() {
    let (ours, theirs, path) = (None, NatKind::Unknown, PathStatus::default());
    let why = Why { path, cause: None, mend: Vec::new(), ours, theirs, session: None, ways: Vec::new(), ..sample() };
    assert_eq!(render(&why), "n2: no path yet\n\nPackets go by r1.\nBoth NATs are symmetric.\n");
}

#[test]
fn every_limit_of_the_lanes_is_named() {
    for limit in ["native", "relayed", "ports-closed", "opening", "fixed", "one-core", "no-gain", "not-needed"] {
        assert!(lanes(&session(1, limit)).starts_with("1: "), "{limit}");
        assert!(lanes(&session(4, limit)).starts_with("1 of 4: "), "{limit}");
    }
    assert_eq!((lanes(&session(1, "")), lanes(&session(4, ""))), (String::from("1"), String::from("1 of 4")));
}

#[test]
fn an_object_for_programs() {
    let json = serde_json::to_value(sample()).unwrap();
    assert_eq!((&json["schema"], &json["cause"]), (&1.into(), &"both-symmetric".into()));
    assert_eq!((&json["path"]["kind"], &json["theirs"]), (&"relayed".into(), &"symmetric".into()));
    assert_eq!((&json["ways"][1]["state"], &json["ours"]["kind"]), (&"silent".into(), &"symmetric".into()));
    assert_eq!(json["session"]["lanes_limit"], "no-gain");
}
