use taut_agent::api::{
    Bytes, CongestionMarks, CoordinatorStatus, Failure, Filtering, Handshakes, LanesStatus, LeaveStatus,
    MappingBehaviour, MissingPart, NamesStatus, NatStatus, PathChanges, PathStatus, PortMapStatus, RelayState,
    RelayStatus, ResolverBackEnd, SCHEMA, SelfStatus, SessionStatus, Traffic, TunStatus,
};
use taut_base::PublicKey;

use super::*;

/// Node `n1` with two peers.
pub(crate) fn sample() -> Status {
    let peer = |name: &str, id: u64, addresses: &[&str], endpoint: Option<&str>| PeerStatus {
        name: String::from(name),
        id,
        addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        node_key: PublicKey([2; 32]),
        online: endpoint.map(|_| true),
        path: endpoint.map_or_else(PathStatus::default, |endpoint| PathStatus::direct(endpoint.parse().ok())),
        session: endpoint.map(|_| SessionStatus {
            age_s: 3.5,
            suite: String::from("AES256GCM"),
            lanes_in_use: 1,
            lanes: 1,
            lanes_limit: None,
            established: 1,
        }),
        rx_bytes: 1_572_864,
        tx_bytes: 12,
        traffic: Traffic::default(),
        last_handshake_s: None,
        round_trip_ms: endpoint.map(|_| 0.312),
        candidates: Vec::new(),
        changes: PathChanges::default(),
        congestion_marks: CongestionMarks::default(),
    };
    Status {
        schema: SCHEMA,
        state: NodeState::Running,
        version: String::from("0.1.0"),
        pid: 7,
        network: Some(String::from("home")),
        me: Some(SelfStatus {
            name: String::from("n1"),
            id: 1,
            addresses: vec!["100.64.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
            node_key: PublicKey([1; 32]),
            port: 8288,
            ports_taken: Vec::new(),
            endpoints: Vec::new(),
            tun: Some(TunStatus {
                name: String::from("taut0"),
                mtu: 1420,
                mtu_by: None,
                ipv6: true,
                offload: ["checksum", "tso", "uso"].map(String::from).to_vec(),
            }),
            udp: None,
            lanes: None,
            names: Some(NamesStatus {
                domain: String::from("home.taut.internal"),
                servers: vec!["100.64.0.0".parse().unwrap(), "fd00::53:0:53".parse().unwrap()],
                resolver: Some(ResolverStatus { by: Some(ResolverBackEnd::SystemdResolved), problem: None }),
                records: 0,
                record_names: Vec::new(),
                domains: Vec::new(),
                internet: None,
            }),
        }),
        coordinator: Some(CoordinatorStatus {
            url: String::from("http://10.0.0.1:8288"),
            connected: false,
            last_error: Some(String::from("http://10.0.0.1:8288: Connection refused (os error 111)")),
            disconnected_s: Some(65.0),
            retry_in_s: Some(3.4),
            map_version: 4,
        }),
        problem: None,
        waiting: None,
        expires_in_s: None,
        warnings: Vec::new(),
        peers: vec![
            peer("n2", 2, &["100.64.0.2", "fd00::2"], Some("10.0.0.2:8288")),
            peer("router-3", 3, &["100.64.0.3"], None),
        ],
        drops: [(String::from("no-route"), 3), (String::from("replayed"), 2)].into(),
        handshakes: Handshakes::default(),
        nat: None,
        relays: Vec::new(),
        routes: None,
        kill_switch: None,
        exit: None,
        port_mapping: None,
        leave: None,
        sandbox: Some(SandboxStatus { on: vec![String::from("files")], missing: Vec::new() }),
        #[cfg(feature = "userspace")]
        userspace: None,
    }
}

#[test]
fn one_screen() {
    assert_eq!(
        render(&sample()),
        "\
n1 in network home: up
addresses    100.64.0.1 fd00::1
names        *.home.taut.internal, answered at 100.64.0.0 fd00::53:0:53, asked by systemd-resolved
device       taut0, MTU 1420, UDP port 8288
coordinator  http://10.0.0.1:8288, not connected for 65 s: Connection refused; next attempt in 3 s
sandbox      on

NAME      ADDRESSES           PATH                              SUITE      ONLINE   RECEIVED  SENT
n2        100.64.0.2 fd00::2  direct via 10.0.0.2:8288, 0.3 ms  AES256GCM  yes      1.5 MiB   12 B
router-3  100.64.0.3          no session                                   unknown  1.5 MiB   12 B

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
        me.lanes = Some(LanesStatus {
            ports: vec![8288, 8289],
            auto: false,
            most: 2,
            problem: None,
            steering,
            handed_over: 0,
            strays: 0,
        });
    }
    let text = render(&status);
    assert!(text.contains("UDP ports 8288 8289, one per lane\n"), "{text}");
    assert!(text.contains("direct via 10.0.0.2:8288, 0.3 ms, 1 of 4 lanes "), "{text}");

    if let Some(session) = &mut status.peers[0].session {
        (session.lanes, session.lanes_limit) = (1, Some(String::from("no-gain")));
    }
    let text = render(&status);
    assert!(text.contains("direct via 10.0.0.2:8288, 0.3 ms, one lane: more carried no more "), "{text}");
}

#[test]
fn relays_nat_and_port_mapping_are_shown() {
    let mut status = sample();
    let relay = |name: &str, state, home, latency_ms, problem: Option<&str>| RelayStatus {
        name: String::from(name),
        endpoints: Vec::new(),
        state,
        home,
        latency_ms,
        problem: problem.map(String::from),
        via: None,
        websocket: None,
    };
    status.relays = vec![
        relay("r1", RelayState::Bound, true, Some(4.25), None),
        relay("r2", RelayState::Unreachable, false, None, Some("no answer")),
    ];
    let seen_as = vec!["203.0.113.1:40000".parse().unwrap()];
    status.nat = Some(NatStatus::new(
        MappingBehaviour::EndpointIndependent,
        Filtering::AddressAndPortDependent,
        Some(false),
        seen_as,
    ));
    status.port_mapping =
        Some(PortMapStatus { problem: Some(String::from("no gateway answers")), ..PortMapStatus::default() });
    let path = PathStatus { since_s: Some(130.0), loss: Some(0.021), mtu: Some(1_432), ..PathStatus::relayed("r1") };
    let traffic = Traffic { relayed: Bytes { received: 1_048_576, sent: 12 }, ..Traffic::default() };
    let silent = PathStatus { silent: true, ..path.clone() };
    (status.peers[0].path, status.peers[0].traffic) = (silent, traffic);
    assert!(
        render(&status).contains("  relayed by r1, no answer, MTU 1432, 2.1 % lost, for 2 min  "),
        "{}",
        render(&status)
    );
    status.peers[0].path = path;
    assert_eq!(
        render(&status),
        "\
n1 in network home: up
addresses     100.64.0.1 fd00::1
names         *.home.taut.internal, answered at 100.64.0.0 fd00::53:0:53, asked by systemd-resolved
device        taut0, MTU 1420, UDP port 8288
coordinator   http://10.0.0.1:8288, not connected for 65 s: Connection refused; next attempt in 3 s
NAT           port-restricted cone NAT, seen as 203.0.113.1:40000
port mapping  none: no gateway answers
relay         r1, bound, 4.3 ms, home
relay         r2, unreachable: no answer
sandbox       on

NAME      ADDRESSES           PATH                                                    SUITE      ONLINE   RECEIVED                   SENT
n2        100.64.0.2 fd00::2  relayed by r1, 0.3 ms, MTU 1432, 2.1 % lost, for 2 min  AES256GCM  yes      1.5 MiB (1.0 MiB relayed)  12 B (12 B relayed)
router-3  100.64.0.3          no session                                                         unknown  1.5 MiB                    12 B

dropped packets: no-route 3, replayed 2
"
    );
}

#[test]
fn fault_j12_a_warning_is_shown_while_the_node_is_up() {
    let mut status = sample();
    let warning = Failure { message: String::from("IPv6 is switched off"), hint: String::from("switch it on") };
    status.warnings = vec![warning];
    if let Some(tun) = status.me.as_mut().and_then(|me| me.tun.as_mut()) {
        tun.ipv6 = false;
    }
    let text = render(&status);
    assert!(text.contains("\nwarning: IPv6 is switched off\n  switch it on\n"), "{text}");
    assert!(text.contains("taut0, MTU 1420, IPv4 only, UDP port"), "{text}");
    assert!(!render(&sample()).contains("warning") && !render(&sample()).contains("IPv4 only"));
}

#[test]
fn fault_p3_missing_parts_of_the_sandbox_are_shown() {
    let line = |sandbox: Option<SandboxStatus>| {
        let text = render(&Status { sandbox, ..sample() });
        String::from(text.lines().find_map(|line| line.strip_prefix("sandbox      ")).unwrap())
    };
    let missing = vec![MissingPart { part: String::from("files"), reason: String::from("no Landlock") }];
    let on = vec![String::from("capabilities")];
    assert_eq!(line(Some(SandboxStatus { on, missing: missing.clone() })), "on, without files (no Landlock)");
    assert_eq!(line(Some(SandboxStatus { on: Vec::new(), missing })), "none; the kernel refuses files (no Landlock)");
    assert_eq!(line(None), "off: the daemon keeps all rights of its user");
}

#[test]
fn before_the_first_join() {
    let problem = Failure { message: String::from("the disk is full"), hint: String::from("free some") };
    let status = Status {
        state: NodeState::NeedsJoin,
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

#[test]
fn the_progress_of_leaving_is_shown() {
    let leave = LeaveStatus {
        state: LeaveState::Leaving,
        network: Some(String::from("home")),
        name: Some(String::from("n1")),
        listed: None,
        problem: None,
    };
    let status = Status { state: NodeState::Stopped, leave: Some(leave.clone()), ..sample() };
    assert!(render(&status).starts_with("n1 in network home: leaving; the coordinator has not answered yet\n"));
    let problem = Failure { message: String::from("it may still list this node"), hint: String::from("remove it") };
    let leave = LeaveStatus { state: LeaveState::Left, listed: Some(true), problem: Some(problem), ..leave };
    let status = Status { state: NodeState::NeedsJoin, me: None, coordinator: None, leave: Some(leave), ..sample() };
    let text = render(&status);
    assert!(text.contains("\nthe last `taut leave`: it may still list this node\n  remove it\n"), "{text}");
}
