use std::net::{IpAddr, SocketAddr};

use taut_base::{PeerId, RelayId};
use taut_netmap::{NameRecord, NetworkMap};
use taut_node::NodeEvent;
use taut_path::{PathChangeReason, PathEvent, Way};
use taut_relay::LostCause;

use super::*;
use crate::testkit;

fn clocks(seconds: u64) -> Clocks {
    let now = Duration::from_secs(1_000 + seconds);
    Clocks { now: Time::from_duration(now), wall: Duration::from_secs(1_795_489_927) + now }
}

fn log(levels: &str) -> Log {
    Log::new(LogOptions { levels: levels.parse().unwrap(), stderr: StderrFormat::None })
}

fn events(log: &Log) -> Vec<String> {
    log.read(None).lines.iter().map(|line| Entry::parse(line).unwrap().event).collect()
}

fn name(name: &str) -> [Value; 1] {
    [Value::text(name)]
}

#[test]
fn levels_choose_what_is_recorded_and_may_change() {
    let mut log = log("info,session=debug");
    log.record(&kind::PEER_ONLINE, EventSource::Peer(1), &name("a"), clocks(0));
    log.record(&kind::SESSION_EXPIRED, EventSource::Peer(1), &name("a"), clocks(0));
    log.record(&kind::PEER_ADDED, EventSource::Peer(1), &name("a"), clocks(0));
    assert_eq!(events(&log), ["session-expired", "peer-added"]);
    assert_eq!(
        log.poll_line().map(|waiting| waiting.line.contains("peer-added")),
        Some(true),
        "the disk has info and above"
    );
    assert!(log.poll_line().is_none());
    log.set_levels("warn".parse().unwrap(), clocks(1));
    log.record(&kind::PEER_ADDED, EventSource::Peer(1), &name("b"), clocks(2));
    assert_eq!(events(&log).len(), 2, "the change itself is of level info");
    log.set_levels("debug".parse().unwrap(), clocks(3));
    assert_eq!(events(&log).last().unwrap(), "levels-changed");
}

fn drain(log: &mut Log) -> Vec<String> {
    std::iter::from_fn(|| log.poll_line()).map(|waiting| waiting.line).collect()
}

#[test]
fn a_restart_begins_with_the_events_of_the_last_run() {
    let mut first = log("info");
    assert_eq!(first.resume(&[]), None);
    first.record(&kind::PEER_ADDED, EventSource::Peer(1), &name("a"), clocks(0));
    let mut lines = drain(&mut first);
    lines.push(String::from("{\"cut off"));
    let mut second = log("info");
    assert_eq!(second.resume(&lines), Some("cut-off"));
    second.finish("signal", clocks(1));
    assert_eq!(events(&second), ["peer-added", "daemon-stopping"]);
    lines.extend(drain(&mut second));
    assert_eq!(log("info").resume(&lines), Some("stopped"));
    // A line behind it, such as one that waited for the disk, changes nothing.
    second.record(&kind::NETWORK_DOWN, EventSource::Node, &[Value::Word("daemon-stops")], clocks(1));
    lines.extend(drain(&mut second));
    assert_eq!(log("info").resume(&lines), Some("stopped"));
    second.record(&kind::DAEMON_STARTED, EventSource::Node, &[Value::None, Value::None, Value::None], clocks(2));
    lines.extend(drain(&mut second));
    assert_eq!(log("info").resume(&lines), Some("cut-off"));
}

fn change_path(log: &mut Log, peer: u64, second: u64) {
    let values = [Value::Text(format!("p{peer}")), Value::Word("a"), Value::Word("b"), Value::Word("no-answer")];
    log.record(&kind::PATH_CHANGED, EventSource::Peer(peer), &values, clocks(second));
}

#[test]
fn fault_p5_lines_that_do_not_reach_the_disk_are_counted() {
    // The paths to 150 peers change in one turn.
    let mut turn = log("info");
    (0..150).for_each(|peer| change_path(&mut turn, peer, 0));
    assert_eq!(drain(&mut turn).len(), 150);
    // One peer causes 354 lines within an hour, each within the limits of a minute.
    let mut log = log("info");
    let mut disk = Vec::new();
    for minute in 0..59 {
        (0..6).for_each(|_| change_path(&mut log, 1, 60 * minute));
        disk.extend(drain(&mut log));
    }
    assert_eq!(disk.len(), 60);
    assert_eq!(log.poll_timeout(false), Some(clocks(3_600).now));
    log.handle_timeout(clocks(3_600));
    let told = Entry::parse(&drain(&mut log)[0]).unwrap();
    let field = |name| told.field(name).unwrap_or_default();
    assert_eq!((&told.event[..], field("count"), field("sources")), ("events-not-on-disk", "294", "p1 294"));
    // The thread that writes does not accept a line, and the daemon ends.
    change_path(&mut log, 1, 3_600);
    let line = log.poll_line().unwrap();
    log.count_lost(&line);
    log.finish("signal", clocks(3_601));
    assert_eq!(events(&log).last().unwrap(), "daemon-stopping");
    assert!(drain(&mut log)[0].contains("\"count\":1,\"sources\":\"p1 1\""));
}

#[test]
fn fault_p5_one_member_under_changing_identities_erases_nothing() {
    let mut log = log("info");
    let mut map = network(1, &[(2, "honest", 2)]);
    note_map(&mut log, None, &map, clocks(0));
    (0..100).for_each(|step| change_path(&mut log, 2, 60 * (step / 6)));
    (0..20).for_each(|step| {
        let values = [Value::Word("u"), Value::Word("r"), Value::Number(1)];
        log.record(&kind::COORDINATOR_LOST, EventSource::Coordinator, &values, clocks(1_000 + 60 * step));
    });
    drain(&mut log);
    let mut disk = 0;
    for id in 100..5_000 {
        let second = 4_000 + id / 3;
        for peers in [&[(2, "honest", 2), (id, "x", 5)][..], &[(2, "honest", 2)]] {
            let next = network(map.version + 1, peers);
            note_map(&mut log, Some(&map), &next, clocks(second));
            change_path(&mut log, id, second);
            map = next;
        }
        disk += drain(&mut log).len();
    }
    let left = events(&log);
    let count = |name: &str| left.iter().filter(|event| *event == name).count();
    assert!(disk < 400, "{disk}");
    assert!(log.new_peers.len() <= MAX_NEW_PEERS, "{} of 4,900 peers that left are remembered", log.new_peers.len());
    assert_eq!(count("coordinator-lost"), 20);
    for (kind, source, values) in [
        (&kind::NETWORK_DOWN, EventSource::Node, vec![Value::Word("tun-lost")]),
        (&kind::DUPLICATE_NODE, EventSource::Coordinator, vec![Value::Word("x")]),
    ] {
        log.record(kind, source, &values, clocks(6_000));
        assert!(drain(&mut log).iter().any(|line| line.contains(kind.event)), "{}", kind.event);
    }
    change_path(&mut log, 2, 6_000);
    assert!(drain(&mut log).iter().any(|line| line.contains("path-changed")), "an honest peer has a place");
}

#[test]
fn fault_p5_a_lying_relay_or_router_takes_no_place_of_this_node() {
    let mut log = log("info");
    change_path(&mut log, 1, 0);
    for step in 0..2_000 {
        let event = NodeEvent::Nat(taut_path::NatEvent::EndpointsChanged {
            from: vec![([198, 51, 100, 1], 1).into()],
            to: vec![([198, 51, 100, 2], 1).into()],
        });
        note_node_event(&mut log, &event, &TestNames, clocks(10 * step));
    }
    assert_eq!(events(&log)[0], "path-changed");
    assert!(log.read(None).lines.len() < 300);
}

#[test]
fn fault_p5_suppressed_lines_are_reported_once_a_minute() {
    let mut log = log("info");
    let mut flap = |second| log.record(&kind::PEER_ANSWERS, EventSource::Peer(7), &name("nas"), clocks(second));
    (0..600).for_each(|tenth| flap(tenth / 10));
    flap(60);
    let lines = log.read(None).lines;
    assert_eq!(lines.len(), 6 + 1 + 1);
    let entry = Entry::parse(&lines[6]).unwrap();
    let field = |name| entry.field(name).map(String::from);
    assert_eq!(
        (&entry.event[..], field("of"), field("peer")),
        ("events-suppressed", Some("peer-answers".into()), Some("nas".into()))
    );
    assert_eq!(field("count").as_deref(), Some("594"));
    // The timer reports suppressed lines even if no further event is recorded.
    (0..10).for_each(|_| log.record(&kind::PEER_ANSWERS, EventSource::Peer(7), &name("nas"), clocks(61)));
    let due = log.poll_timeout(false).unwrap();
    assert_eq!(due, clocks(120).now);
    log.handle_timeout(clocks(120));
    assert_eq!((log.poll_timeout(false), events(&log).last().unwrap().as_str()), (None, "events-suppressed"));
}

#[test]
fn a_clock_that_was_set_is_recorded_and_drift_is_not() {
    let mut log = log("info");
    let mut at = |seconds: u64, ahead: i64| {
        let mut clocks = clocks(seconds);
        clocks.wall = clocks.wall.saturating_add_signed(ahead);
        log.check_clocks(clocks);
    };
    at(0, 0);
    (0..1_000).for_each(|minute| at(60 * minute, minute as i64 * 30));
    at(60_000, 30_000 - 3_600_000);
    at(60_060, 30_000 - 3_600_000);
    let lines = log.read(None).lines;
    assert_eq!(lines.len(), 1, "{lines:?}");
    let entry = Entry::parse(&lines[0]).unwrap();
    assert_eq!((entry.field("direction"), &entry.event[..]), (Some("back"), "clock-jumped"));
}

struct TestNames;

impl Names for TestNames {
    fn peer(&self, id: PeerId) -> Option<(u64, String)> {
        (id.0 == 3).then(|| (7, String::from("nas")))
    }

    fn relay(&self, id: RelayId) -> Option<String> {
        (id.0 == 0).then(|| String::from("home"))
    }

    fn relay_at(&self, address: SocketAddr) -> Option<String> {
        (address.port() == 3478).then(|| String::from("home"))
    }
}

#[test]
fn events_of_the_node_contain_names() {
    let mut log = log("debug");
    let (peer, relay) = (PeerId(3), SocketAddr::from(([203, 0, 113, 9], 3478)));
    let (relayed, direct) = (Way::Relayed { relay, id: 1 }, Way::Direct(([198, 51, 100, 2], 8288).into()));
    let path = |from, to| {
        let event = PathEvent::PathChanged { from, to, reason: PathChangeReason::DirectProven };
        NodeEvent::Path { peer, event }
    };
    let all = [
        (
            path(Some(relayed), direct),
            "info  path: the path to the peer changed event=path-changed peer=nas from=relay:home to=198.51.100.2:8288 reason=direct-proven",
        ),
        (
            path(None, relayed),
            "debug path: data to the peer takes another path event=path-moved peer=nas from=none to=relay:home reason=direct-proven",
        ),
        (
            NodeEvent::RelayLost { relay: RelayId(0), reason: LostCause::Silent },
            "info  relay: a relay does not serve this node any more event=relay-lost relay=home reason=silent",
        ),
        (
            NodeEvent::RelayReleased { relay: RelayId(9) },
            "debug relay: a relay that nobody needed was left event=relay-released relay=9",
        ),
        (
            NodeEvent::SessionExpired { peer: PeerId(4) },
            "debug session: the last session with a peer has ended event=session-expired",
        ),
    ];
    for (event, _) in &all {
        note_node_event(&mut log, event, &TestNames, clocks(0));
    }
    let texts: Vec<String> = log.read(None).lines.iter().map(|line| Entry::parse(line).unwrap().text()).collect();
    assert_eq!(texts.len(), all.len());
    for (text, (_, expected)) in texts.iter().zip(all) {
        assert_eq!(&text[25..], expected);
    }
}

/// Returns a map with these peers: number, name, and the byte of the key.
fn network(version: u64, peers: &[(u64, &str, u8)]) -> NetworkMap {
    testkit::network(version, peers.iter().map(|(id, name, key)| testkit::peer(*id, name, *key, Vec::new())))
}

#[test]
fn other_names_of_the_operator_are_recorded() {
    let mut log = log("info");
    let first = network(1, &[]);
    note_map(&mut log, None, &first, clocks(0));
    let mut second = network(2, &[]);
    let record = |name: String| NameRecord { name, addresses: vec![IpAddr::from([10, 0, 0, 1])] };
    second.network.naming.records = (0..12).map(|number| record(format!("r{number}.corp.example"))).collect();
    note_map(&mut log, Some(&first), &second, clocks(1));
    note_map(&mut log, Some(&second), &second, clocks(2));
    let changes: Vec<Entry> = log.read(None).lines.iter().map(|line| Entry::parse(line).unwrap()).collect();
    let named: Vec<&Entry> = changes.iter().filter(|entry| entry.event == "names-changed").collect();
    assert_eq!(named.len(), 1);
    let text = named[0].text();
    assert!(text.contains("r0.corp.example,r1.corp.example") && text.contains("and 2 more"), "{text}");
}

#[test]
fn a_new_map_is_recorded_by_its_changes() {
    let mut log = log("debug");
    let first = network(1, &[(2, "a", 2), (3, "b", 3)]);
    note_map(&mut log, None, &first, clocks(0));
    assert_eq!(events(&log), ["map-changed"]);
    let second = network(2, &[(2, "c", 9), (4, "d", 4)]);
    note_map(&mut log, Some(&first), &second, clocks(1));
    assert_eq!(events(&log)[1..], ["map-changed", "peer-added", "peer-removed", "peer-renamed", "peer-key-changed"]);
    let counts = Entry::parse(&log.read(None).lines[1]).unwrap();
    let count = |name| counts.field(name).map(String::from);
    assert_eq!(
        (count("added"), count("removed"), count("changed"), count("peers")),
        (Some("1".into()), Some("1".into()), Some("1".into()), Some("2".into()))
    );
    let mut third = second.clone();
    third.version = 3;
    third.peers.values_mut().for_each(|peer| peer.endpoints.push(([192, 0, 2, 1], 1).into()));
    note_map(&mut log, Some(&second), &third, clocks(2));
    assert_eq!(events(&log)[6..], ["map-updated"]);
    let many: Vec<(u64, &str, u8)> = (2..100).map(|id| (id, "x", 5)).collect();
    note_map(&mut log, Some(&third), &network(4, &many), clocks(3));
    assert_eq!(events(&log)[7..], ["map-changed"], "only the number of a large change is recorded");
}

trait Signed {
    fn saturating_add_signed(self, milliseconds: i64) -> Self;
}

impl Signed for Duration {
    fn saturating_add_signed(self, milliseconds: i64) -> Self {
        let by = Self::from_millis(milliseconds.unsigned_abs());
        if milliseconds < 0 { self.saturating_sub(by) } else { self + by }
    }
}
