use std::time::Duration;

use super::*;
use crate::netcheck::survey::ObservedAddress;

fn server(name: &str, endpoints: &[&str]) -> StunServer {
    StunServer { name: String::from(name), endpoints: endpoints.iter().map(|one| one.parse().unwrap()).collect() }
}

fn sample() -> Report {
    let seen = |server: &str, micros| ObservedAddress {
        server: server.parse().unwrap(),
        mapped: "203.0.113.1:40000".parse().unwrap(),
        time: Duration::from_micros(micros),
    };
    let ipv4 = Family {
        asked: true,
        local: Some("192.168.1.5:50000".parse().unwrap()),
        answers: vec![seen("198.51.100.1:3478", 4_212), seen("198.51.100.1:3479", 4_300)],
        other_port_answered: Some(false),
        hairpin: Some(false),
    };
    let servers = [server("r1", &["198.51.100.1:3478"]), server("198.51.100.9:3478", &["198.51.100.9:3478"])];
    Report::new(&servers, &Survey { ipv4, ipv6: Family::default() }, None, Vec::new())
}

#[test]
fn one_screen() {
    let unasked = if cfg!(feature = "portmap") {
        "only the daemon asks for one, and it does not run"
    } else {
        "this taut was built without port mappings"
    };
    assert_eq!(
        sample().render(),
        format!(
            "\
UDP           works
IPv4          works, this host is 192.168.1.5
  NAT         port-restricted cone NAT, seen as 203.0.113.1:40000
  mapping     endpoint-independent or address-dependent (RFC 4787)
  filtering   address and port-dependent
  hairpin     no
IPv6          not asked: no relay has such an address
port mapping  not asked: {unasked}
relay         r1 198.51.100.1:3478: 4.2 ms
relay         198.51.100.9:3478: no answer

Direct paths work with all peers except those behind a symmetric NAT; a port search often finds a path to those."
        )
    );
}

#[test]
fn why_no_port_mapping_was_asked_for_is_told() {
    for (daemon, why) in [
        (DaemonState::Absent, "it does not run"),
        (DaemonState::Hidden, "try it as root"),
        (DaemonState::Known(NodeState::Running), "`portmap` is off"),
        (DaemonState::Known(NodeState::Stopped), "once the network is up"),
    ] {
        let text = sample().with_daemon(daemon).render();
        let why = if cfg!(feature = "portmap") { why } else { "built without port mappings" };
        assert!(text.contains(why), "{text}");
    }
}

#[cfg(not(feature = "tls"))]
#[test]
fn an_https_url_in_a_build_without_tls_is_told() {
    let one = |url: &str| CoordinatorReport { url: String::from(url), endpoints: Vec::new() };
    let said = |url| sample().with_coordinators(vec![one(url)]).said.join(" ");
    assert!(said("https://a").contains("was built without TLS") && !said("http://a").contains("TLS"));
}

#[test]
fn an_object_for_programs() {
    let json = serde_json::to_value(sample()).unwrap();
    assert_eq!((&json["schema"], &json["udp"]), (&1.into(), &true.into()));
    assert_eq!(json["ipv4"]["nat"]["kind"], "port-restricted-cone");
    assert_eq!((&json["ipv4"]["state"], &json["ipv4"]["keeps_port"]), (&"works".into(), &false.into()));
    assert_eq!((&json["ipv6"]["state"], &json["ipv6"]["nat"]), (&"not-asked".into(), &serde_json::Value::Null));
    assert_eq!(json["relays"][0]["endpoints"][0]["latency_ms"], 4.212);
    assert_eq!(json["relays"][1]["endpoints"][0]["latency_ms"], serde_json::Value::Null);
}

/// Returns the sentences for a host with these survey results and a gateway that mapped the endpoints `mapped`.
fn said(ipv4: Family, ipv6: Family, mapped: &[&str]) -> String {
    let servers = [server("r1", &["198.51.100.1:3478"])];
    let mapped = mapped.iter().map(|one| one.parse().unwrap()).collect();
    let gateway = PortMapStatus { protocol: Some(String::from("PCP")), mapped, ..PortMapStatus::default() };
    Report::new(&servers, &Survey { ipv4, ipv6 }, Some(gateway), Vec::new()).said.join(" ")
}

fn silent(local: &str) -> Family {
    Family { asked: true, local: Some(local.parse().unwrap()), ..Family::default() }
}

fn works(local: &str, mapped: &str) -> Family {
    let time = Duration::from_millis(1);
    let seen = |port| ObservedAddress {
        server: SocketAddr::from(([198, 51, 100, 1], port)),
        mapped: mapped.parse().unwrap(),
        time,
    };
    Family { answers: vec![seen(3478), seen(3479)], ..silent(local) }
}

#[test]
fn each_sentence_appears_only_if_it_is_true() {
    let (home, none) = ("192.168.1.5:50000", Family::default());
    let quiet = said(silent(home), none.clone(), &[]);
    assert!(quiet.contains("Check that a relay runs, and allow outgoing UDP to its port 3478"), "{quiet}");
    assert!(quiet.contains("fewer direct paths are found"), "{quiet}");
    // A missing route does not mean that UDP is blocked.
    let alone = said(Family { asked: true, ..none.clone() }, none.clone(), &[]);
    assert!(alone.contains("no route") && !alone.contains("UDP"), "{alone}");
    // One working family is enough. The report names the problem of the other one.
    let by_v6 = said(silent(home), works("[2001:db8::5]:50000", "[2001:db8::5]:50000"), &[]);
    assert!(by_v6.contains("No relay answered by IPv4") && by_v6.contains("Peers with IPv6 are reachable"), "{by_v6}");
    // The gateway mapped a port: first at the address that relays see, then behind a carrier's NAT.
    let open = said(works(home, "203.0.113.1:40000"), none.clone(), &["203.0.113.1:8288"]);
    assert!(open.contains("peers can reach this host through it"), "{open}");
    let hidden = said(works(home, "203.0.113.1:40000"), none, &["100.64.0.7:8288"]);
    assert!(hidden.contains("a second NAT") && !hidden.contains("can reach this host"), "{hidden}");
}

#[test]
fn missing_answers_do_not_name_a_kind_of_nat() {
    let servers = [server("r1", &["198.51.100.1:3478"])];
    let survey = Survey { ipv4: silent("192.168.1.5:1"), ipv6: Family::default() };
    let report = Report::new(&servers, &survey, None, Vec::new());
    assert!(!report.udp && report.ipv4.state == Reach::Silent);
    let kind = |report: &Report| report.ipv4.nat.as_ref().unwrap().kind;
    assert_eq!(kind(&report), NatKind::Unknown, "the relays may be down");
    let by_websocket = vec![[String::from("r1"), String::from("ws://198.51.100.1/relay/v1")]];
    assert_eq!(kind(&Report::new(&servers, &survey, None, by_websocket)), NatKind::Blocked);
}
