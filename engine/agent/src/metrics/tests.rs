use std::collections::BTreeSet;

use taut_base::PublicKey;

use super::*;
use crate::api::{
    Bytes, CongestionMarks, CoordinatorStatus, Filtering, Handshakes, MappingBehaviour, NatStatus, PathChanges,
    PathStatus, PortMapStatus, RelayStatus, RelayVia, SCHEMA, SessionStatus, Traffic,
};

fn peer(name: &str, path: PathStatus) -> PeerStatus {
    PeerStatus {
        name: String::from(name),
        id: 2,
        addresses: Vec::new(),
        node_key: PublicKey([2; 32]),
        online: Some(true),
        path,
        session: Some(SessionStatus {
            age_s: 3.5,
            suite: String::from("AES256GCM"),
            lanes_in_use: 2,
            lanes: 2,
            lanes_limit: None,
            established: 2,
        }),
        rx_bytes: 8,
        tx_bytes: 6,
        traffic: Traffic { direct: Bytes { received: 7, sent: 4 }, relayed: Bytes { received: 1, sent: 2 } },
        last_handshake_s: None,
        round_trip_ms: Some(12.5),
        candidates: Vec::new(),
        changes: PathChanges { held_bytes: 9, given_up: 3, ignored: 5 },
        congestion_marks: CongestionMarks { received: 11, sent: 12 },
    }
}

/// Returns a status in which every value is known.
pub(crate) fn sample() -> Status {
    let path = PathStatus { since_s: Some(9.0), loss: Some(0.25), mtu: Some(1_432), ..PathStatus::relayed("r\"1") };
    Status {
        schema: SCHEMA,
        state: NodeState::Running,
        version: String::from("0.1.0"),
        pid: 7,
        network: Some(String::from("home")),
        me: None,
        coordinator: Some(CoordinatorStatus {
            url: String::from("http://10.0.0.1:8288"),
            connected: true,
            last_error: None,
            disconnected_s: None,
            retry_in_s: None,
            map_version: 4,
        }),
        problem: None,
        waiting: None,
        expires_in_s: None,
        warnings: Vec::new(),
        peers: vec![peer("n2", path), peer("n3", PathStatus::default())],
        drops: [(String::from("out-no-route"), 3)].into(),
        handshakes: Handshakes { answered: 5, ..Handshakes::default() },
        nat: Some(NatStatus::new(
            MappingBehaviour::EndpointIndependent,
            Filtering::AddressAndPortDependent,
            None,
            Vec::new(),
        )),
        relays: vec![RelayStatus {
            name: String::from("r\"1"),
            endpoints: Vec::new(),
            state: RelayState::Bound,
            home: true,
            latency_ms: Some(2.0),
            problem: None,
            via: Some(RelayVia::Websocket),
            websocket: None,
        }],
        leave: None,
        sandbox: None,
        #[cfg(feature = "userspace")]
        userspace: None,
        routes: None,
        kill_switch: None,
        exit: None,
        port_mapping: Some(PortMapStatus::default()),
    }
}

#[test]
fn the_series_of_a_dashboard() {
    let text = render(&sample());
    for line in [
        "taut_info{version=\"0.1.0\",network=\"home\",node=\"\"} 1",
        "taut_up 1",
        "taut_peer_path{peer=\"n2\",kind=\"relayed\"} 1",
        "taut_peer_path{peer=\"n2\",kind=\"direct\"} 0",
        "taut_peer_path{peer=\"n3\",kind=\"none\"} 1",
        "taut_peer_path_age_seconds{peer=\"n2\"} 9",
        "taut_peer_round_trip_seconds{peer=\"n2\"} 0.0125",
        "taut_peer_loss_ratio{peer=\"n2\"} 0.25",
        "taut_peer_mtu_bytes{peer=\"n2\"} 1432",
        "taut_peer_lanes{peer=\"n2\"} 2",
        "taut_peer_received_bytes_total{peer=\"n2\",way=\"relayed\"} 1",
        "taut_peer_sent_bytes_total{peer=\"n2\",way=\"direct\"} 4",
        "taut_peer_changes_refused_total{peer=\"n2\",why=\"given-up\"} 3",
        "taut_peer_changes_refused_total{peer=\"n2\",why=\"ignored\"} 5",
        "taut_peer_congestion_marks_total{peer=\"n2\",direction=\"received\"} 11",
        "taut_peer_congestion_marks_total{peer=\"n2\",direction=\"sent\"} 12",
        "taut_peer_handshakes_total{peer=\"n2\"} 2",
        "taut_dropped_packets_total{reason=\"out-no-route\"} 3",
        "taut_handshakes_received_total{outcome=\"answered\"} 5",
        "taut_nat_info{kind=\"port-restricted cone NAT\",mapping=\"endpoint-independent\",filtering=\"address and port-dependent\"} 1",
        "taut_relay_state{relay=\"r\\\"1\",state=\"bound\"} 1",
        "taut_relay_state{relay=\"r\\\"1\",state=\"idle\"} 0",
        "taut_relay_via{relay=\"r\\\"1\",via=\"websocket\"} 1",
        "taut_relay_via{relay=\"r\\\"1\",via=\"udp\"} 0",
        "taut_relay_round_trip_seconds{relay=\"r\\\"1\"} 0.002",
        "taut_mapped_ports 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("taut_peer_loss_ratio{peer=\"n3\"}"), "an unknown value is left out instead of 0");
}

#[test]
fn every_series_belongs_to_the_family_before_it_and_comes_once() {
    let text = render(&sample());
    let (mut family, mut families, mut seen) = ("", BTreeSet::new(), BTreeSet::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            family = help.split(' ').next().unwrap();
            assert!(families.insert(family), "{family} comes twice");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let counter = kind == format!("{family} counter");
            assert!(counter || kind == format!("{family} gauge"), "{line}");
            assert_eq!(counter, family.ends_with("_total"), "{line}");
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert_eq!(series.split('{').next(), Some(family));
            assert!(value.parse::<f64>().is_ok() && seen.insert(series), "{line}");
        }
    }
    assert!(text.ends_with('\n'));
}

#[test]
fn the_metrics_contain_no_key() {
    let key = PublicKey([2; 32]).to_string();
    assert!(!render(&sample()).contains(&key));
}
