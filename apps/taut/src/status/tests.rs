use taut_base::PublicKey;
use taut_keeper::api::{
    CoordinatorStatus, Failure, Handshakes, LanesStatus, PathKind, PathStatus, SCHEMA, SelfStatus, SessionStatus,
    TunStatus,
};

use super::*;

/// Node `n1` with two peers.
pub(crate) fn sample() -> Status {
    let peer = |name: &str, id: u64, addresses: &[&str], endpoint: Option<&str>| PeerStatus {
        name: String::from(name),
        id,
        addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        node_key: PublicKey([2; 32]),
        online: endpoint.map(|_| true),
        path: PathStatus {
            kind: if endpoint.is_some() { PathKind::Direct } else { PathKind::None },
            endpoint: endpoint.map(|endpoint| endpoint.parse().unwrap()),
        },
        session: endpoint.map(|_| SessionStatus {
            age_s: 3.5,
            suite: String::from("AES256GCM"),
            lanes_in_use: 1,
            lanes: 1,
            established: 1,
        }),
        rx_bytes: 1_572_864,
        tx_bytes: 12,
        last_handshake_s: None,
        round_trip_ms: endpoint.map(|_| 0.312),
        candidates: Vec::new(),
    };
    Status {
        schema: SCHEMA,
        state: State::Running,
        version: String::from("0.1.0"),
        pid: 7,
        network: Some(String::from("home")),
        me: Some(SelfStatus {
            name: String::from("n1"),
            id: 1,
            addresses: vec!["100.64.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
            node_key: PublicKey([1; 32]),
            port: 8288,
            endpoints: Vec::new(),
            tun: Some(TunStatus { name: String::from("taut0"), mtu: 1420, offload: Vec::new() }),
            udp: None,
            lanes: None,
        }),
        coordinator: Some(CoordinatorStatus {
            url: String::from("http://10.0.0.1:8288"),
            connected: false,
            last_error: Some(String::from("Connection refused")),
            map_version: 4,
        }),
        problem: None,
        peers: vec![
            peer("n2", 2, &["100.64.0.2", "fd00::2"], Some("10.0.0.2:8288")),
            peer("router-3", 3, &["100.64.0.3"], None),
        ],
        drops: [(String::from("no-route"), 3), (String::from("replayed"), 2)].into(),
        handshakes: Handshakes::default(),
    }
}

#[test]
fn one_screen() {
    assert_eq!(
        render(&sample()),
        "\
n1 in network home: up
addresses    100.64.0.1 fd00::1
device       taut0, MTU 1420, UDP port 8288
coordinator  http://10.0.0.1:8288, not connected: Connection refused

NAME      ADDRESSES           PATH                              SUITE      ONLINE   RECEIVED  SENT
n2        100.64.0.2 fd00::2  direct via 10.0.0.2:8288, 0.3 ms  AES256GCM  yes      1.5 MiB   12 B
router-3  100.64.0.3          no path yet                                  unknown  1.5 MiB   12 B

dropped packets: no-route 3, replayed 2
"
    );
}

#[test]
fn lanes_are_shown_where_there_are_several() {
    let mut status = sample();
    if let Some(session) = &mut status.peers[0].session {
        (session.lanes_in_use, session.lanes) = (1, 4);
    }
    if let Some(me) = &mut status.me {
        let steering = String::from("kernel");
        me.lanes = Some(LanesStatus { ports: vec![8288, 8289], steering, handed_over: 0, strays: 0 });
    }
    let text = render(&status);
    assert!(text.contains("UDP ports 8288 8289, one per lane\n"), "{text}");
    assert!(text.contains("direct via 10.0.0.2:8288, 0.3 ms, 1 of 4 lanes "), "{text}");
}

#[test]
fn before_the_first_join() {
    let problem = Failure { message: String::from("the disk is full"), hint: String::from("free some") };
    let status = Status {
        state: State::NeedsJoin,
        network: None,
        me: None,
        coordinator: None,
        problem: Some(problem),
        peers: Vec::new(),
        drops: [].into(),
        ..sample()
    };
    assert_eq!(
        render(&status),
        "taut: not a member of any network; join one with `taut up --join TOKEN`\nproblem: the disk is full\n  free some\n"
    );
}
