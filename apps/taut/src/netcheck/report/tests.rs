use std::time::Duration;

use super::*;
use crate::netcheck::survey::Seen;

fn server(name: &str, endpoints: &[&str]) -> Server {
    Server { name: String::from(name), endpoints: endpoints.iter().map(|one| one.parse().unwrap()).collect() }
}

fn sample() -> Report {
    let seen = |server: &str, micros| Seen {
        server: server.parse().unwrap(),
        mapped: "203.0.113.1:40000".parse().unwrap(),
        time: Duration::from_micros(micros),
    };
    let ipv4 = Family {
        asked: true,
        local: Some("192.168.1.5:50000".parse().unwrap()),
        answers: vec![seen("198.51.100.1:3478", 4_212), seen("198.51.100.1:3479", 4_300)],
        other_port_came_in: Some(false),
        hairpin: Some(false),
    };
    let servers = [server("r1", &["198.51.100.1:3478"]), server("198.51.100.9:3478", &["198.51.100.9:3478"])];
    Report::new(&servers, &Survey { ipv4, ipv6: Family::default() }, None, Vec::new())
}

#[test]
fn one_screen() {
    assert_eq!(
        sample().render(),
        "\
UDP           works
IPv4          works, this host is 192.168.1.5
  NAT         port-restricted cone NAT, seen as 203.0.113.1:40000
  mapping     endpoint-independent or address-dependent (RFC 4787)
  filtering   address and port-dependent
  hairpin     no
IPv6          not asked: no relay has such an address
port mapping  not asked: the daemon does that, and none is up
relay         r1 198.51.100.1:3478: 4.2 ms
relay         198.51.100.9:3478: no answer

Direct paths work with all peers but those behind a symmetric NAT; there ports are guessed, which often works."
    );
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

#[test]
fn silence_says_what_to_do() {
    let ipv4 = Family { asked: true, local: Some("192.168.1.5:1".parse().unwrap()), ..Family::default() };
    let report = Report::new(
        &[server("r1", &["198.51.100.1:3478"])],
        &Survey { ipv4, ipv6: Family::default() },
        None,
        Vec::new(),
    );
    assert!(!report.udp && report.ipv4.state == Reach::Silent);
    assert!(report.render().contains("Let UDP out to the relays' port 3478"), "{}", report.render());
}
