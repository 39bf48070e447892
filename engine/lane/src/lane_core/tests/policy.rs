//! The packet filter on the way in.

use std::sync::Arc;

use taut_base::Prefix;
use taut_filter::{Filter, FlowTable, Gate, PacketFilter, Rule, ServicePorts, Services, Target};
use taut_node::{FromLane, Routes, ToLane};
use taut_testkit::packets::{Ip, Tcp};
use taut_wire::ip::ICMP;
use taut_wire::tcp;

use super::kit::{PEER, TestLane, at, outer, pair};
use crate::drops::DropReason;

/// Hosts 1 and 2 as the test kit's packets name them.
const HERE: &str = "10.0.0.1/32";
const THERE: &str = "10.0.0.2/32";

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

/// Returns a rule that allows packets from host 1 to these ports of host 2.
fn to_ports(ports: &[(u16, u16)], proto: &[u8]) -> Rule {
    let dst = vec![Target { prefix: prefix(THERE), ports: ports.to_vec() }];
    Rule { src: vec![prefix(HERE)], proto: proto.to_vec(), dst }
}

fn routes(filter: Arc<PacketFilter>, flows: &Arc<FlowTable>, services: Services) -> ToLane {
    let gate = Gate { filter, flows: Arc::clone(flows), services };
    let routes = Routes::new([(prefix(HERE), PEER)]).only_to(&[prefix(THERE).address()]);
    ToLane::Routes(routes.guarded_by(Some(gate.into())).into())
}

/// Two hosts, of which the second has a filter.
struct Guarded {
    here: TestLane,
    there: TestLane,
    flows: Arc<FlowTable>,
}

impl Guarded {
    fn new(rules: Vec<Rule>) -> Self {
        let (mut here, there) = pair();
        here.command(ToLane::Routes(Routes::new([(prefix(THERE), PEER)]).into()), at(0));
        let mut both = Self { here, there, flows: Arc::new(FlowTable::new([3; 16])) };
        both.set(rules, Services::default());
        both
    }

    fn set(&mut self, rules: Vec<Rule>, services: Services) {
        self.set_filter(&PacketFilter::new(&Filter { rules }).into(), services);
    }

    fn set_filter(&mut self, filter: &Arc<PacketFilter>, services: Services) {
        self.there.command(routes(Arc::clone(filter), &self.flows, services), at(0));
    }

    /// Has host 1 send a packet. Returns true if host 2 accepts it.
    fn arrives(&mut self, packet: &[u8]) -> bool {
        self.here.outbound(packet, at(1));
        for datagram in self.here.datagrams() {
            self.there.inbound(outer(1), &datagram, datagram.len(), at(1));
        }
        !self.there.written().is_empty()
    }

    /// Has host 2 send a packet.
    fn answers(&mut self, packet: &[u8]) {
        self.there.outbound(packet, at(1));
        self.there.datagrams();
    }
}

fn from_here() -> Ip {
    Ip { source: 1, destination: 2, ..Ip::v4() }
}

fn from_there() -> Ip {
    Ip { source: 2, destination: 1, ..Ip::v4() }
}

fn segment(source: u16, destination: u16, flags: u8) -> Tcp {
    Tcp { source, destination, flags, ..Tcp::default() }
}

fn echo(kind: u8) -> Vec<u8> {
    vec![kind, 0, 0, 0, 0, 7, 0, 1]
}

#[test]
fn fault_g1_without_a_rule_nothing_crosses() {
    let mut both = Guarded::new(vec![]);
    let packets = [
        from_here().tcp(&segment(40_000, 22, tcp::SYN)),
        from_here().tcp(&segment(40_000, 22, tcp::ACK)),
        from_here().tcp(&segment(22, 40_000, tcp::SYN | tcp::ACK)),
        from_here().udp((1, 2), b"x"),
        from_here().carry(ICMP, &echo(8)),
        from_here().carry(ICMP, &echo(0)),
        from_here().carry(47, b"gre"),
    ];
    for packet in &packets {
        assert!(!both.arrives(packet), "{packet:?}");
    }
    both.there.assert_dropped(DropReason::Policy, packets.len() as u64);
    let reports = both.there.outputs().into_iter().filter(|output| matches!(output, FromLane::Filtered { .. }));
    assert_eq!(reports.count(), 3, "a sample");
    assert!(both.flows.is_empty(), "what a peer sends takes no memory");
}

#[test]
fn a_rule_lets_its_ports_pass_and_takes_no_state() {
    let mut both = Guarded::new(vec![to_ports(&[(22, 22)], &[6])]);
    for flags in [tcp::SYN, tcp::ACK, tcp::FIN | tcp::ACK] {
        assert!(both.arrives(&from_here().tcp(&segment(40_000, 22, flags))));
    }
    for (allowed, packet) in [
        (false, from_here().tcp(&segment(40_000, 23, tcp::ACK))),
        (true, from_here().tcp(&segment(40_000, 22, tcp::ACK))),
        (false, from_here().udp((40_000, 22), b"x")),
        (true, from_here().carry(ICMP, &echo(8))),
    ] {
        assert_eq!(both.arrives(&packet), allowed, "{packet:?}");
    }
    both.answers(&from_there().tcp(&segment(22, 40_000, tcp::SYN | tcp::ACK)));
    assert!(both.flows.is_empty(), "the rule allows the answers to this answer");
}

#[test]
fn an_open_peer_costs_no_state() {
    let mut both = Guarded::new(vec![to_ports(&[(0, 65_535)], &[])]);
    both.answers(&from_there().udp((1, 2), b"x"));
    both.answers(&from_there().tcp(&segment(40_000, 80, tcp::SYN)));
    assert!(both.arrives(&from_here().udp((7, 7), b"x")) && both.flows.is_empty());
    // The rule allows only the default protocols, and 47 is none of them.
    assert!(!both.arrives(&from_here().carry(47, b"x")));
    both.answers(&from_there().carry(47, b"x"));
    assert!(both.arrives(&from_here().carry(47, b"x")));
    assert_eq!(both.flows.len(), 1);
}

#[test]
fn answers_to_what_the_host_began_pass_and_nothing_else() {
    let mut both = Guarded::new(vec![]);
    both.answers(&from_there().udp((5_000, 53), b"question"));
    assert!(both.arrives(&from_here().udp((53, 5_000), b"answer")));
    assert!(!both.arrives(&from_here().udp((53, 5_001), b"answer")));
    assert!(!both.arrives(&from_here().udp((54, 5_000), b"answer")));
    both.answers(&from_there().tcp(&segment(40_000, 80, tcp::SYN)));
    for flags in [tcp::SYN | tcp::ACK, tcp::ACK, tcp::FIN | tcp::ACK] {
        assert!(both.arrives(&from_here().tcp(&segment(80, 40_000, flags))));
    }
    assert!(!both.arrives(&from_here().tcp(&segment(81, 40_000, tcp::ACK))));
    assert!(!both.arrives(&from_here().tcp(&segment(80, 40_000, tcp::SYN))), "another connection on the same ports");
    both.answers(&from_there().tcp(&segment(40_001, 80, tcp::SYN)));
    assert!(both.arrives(&from_here().tcp(&segment(80, 40_001, tcp::SYN))), "a simultaneous open");
    assert!(!both.arrives(&from_here().carry(ICMP, &echo(0))), "a reply without a request");
    both.answers(&from_there().carry(ICMP, &echo(8)));
    assert!(both.arrives(&from_here().carry(ICMP, &echo(0))));
    assert!(!both.arrives(&from_here().carry(ICMP, &echo(8))), "a request is no answer");
    assert_eq!(both.flows.len(), 4);
}

#[test]
fn an_answer_passes_on_another_lane_than_the_packet_that_it_answers() {
    let (first, mut second) = (Guarded::new(vec![]), Guarded::new(vec![]));
    // Both test setups share one table of flows, like two lanes of one node.
    second.flows = Arc::clone(&first.flows);
    second.set(vec![], Services::default());
    let mut first = first;
    assert!(!second.arrives(&from_here().tcp(&segment(80, 40_000, tcp::SYN | tcp::ACK))));
    first.answers(&from_there().tcp(&segment(40_000, 80, tcp::SYN)));
    assert!(second.arrives(&from_here().tcp(&segment(80, 40_000, tcp::SYN | tcp::ACK))));
}

/// The fragments of a datagram from port 9 to port 53, cut after these bytes, and after twice as many.
fn fragments(cut: usize) -> [Vec<u8>; 3] {
    let whole = [[0, 9, 0, 53, 0, 72, 0, 0].as_slice(), &[7; 64]].concat();
    let piece = |range: std::ops::Range<usize>, more: u16| {
        let mut bytes = from_here().carry(17, &whole[range.clone()]);
        let word = more << 13 | u16::try_from(range.start / 8).unwrap();
        bytes[6..8].copy_from_slice(&word.to_be_bytes());
        bytes
    };
    [piece(0..cut, 1), piece(cut..2 * cut, 1), piece(2 * cut..72, 0)]
}

#[test]
fn fault_g5_fragments_pass_only_behind_an_allowed_first_one() {
    let [first, second, last] = fragments(16);
    let mut closed = Guarded::new(vec![to_ports(&[(54, 54)], &[])]);
    for (fragment, reason, count) in [
        (&first, DropReason::Policy, 1),
        (&second, DropReason::PolicyFragment, 1),
        (&last, DropReason::PolicyFragment, 2),
    ] {
        assert!(!closed.arrives(fragment));
        assert_eq!(closed.there.dropped(reason), count);
    }
    let mut both = Guarded::new(vec![to_ports(&[(53, 53)], &[])]);
    assert!(!both.arrives(&second), "before the first one");
    assert!(both.arrives(&first) && both.arrives(&second) && both.arrives(&last));
    // Three hostile fragments: one would overwrite the ports, one belongs to another packet, and the third is a first fragment without all ports.
    let mut overlapping = second.clone();
    overlapping[7] = 1;
    let mut other = second.clone();
    other[4..6].copy_from_slice(&[1, 2]);
    let mut tiny = from_here().carry(17, &[0, 9, 0, 53]);
    tiny[6] = 0x20;
    for hostile in [overlapping, other, tiny] {
        assert!(!both.arrives(&hostile));
    }
    assert_eq!(both.there.dropped(DropReason::PolicyFragment), 4);
}

#[test]
fn fault_g6_addresses_that_embed_others_reach_nothing() {
    let open = Rule {
        src: vec![prefix("0.0.0.0/0"), prefix("::/0")],
        proto: vec![],
        dst: ["0.0.0.0/0", "::/0"].map(|all| Target { prefix: prefix(all), ports: vec![(0, 65_535)] }).to_vec(),
    };
    let mut both = Guarded::new(vec![open]);
    both.here.command(ToLane::Routes(Routes::new([(prefix("::/0"), PEER), (prefix(THERE), PEER)]).into()), at(0));
    // Mapped, compatible, NAT64 and 6to4 forms of 10.0.0.2, the address of host 2.
    let embedding = ["::ffff:10.0.0.2", "::10.0.0.2", "64:ff9b::10.0.0.2", "2002:a00:2::1"];
    for destination in embedding {
        let mut packet = Ip::v6().udp((1, 2), b"x");
        let octets: std::net::Ipv6Addr = destination.parse().unwrap();
        packet[24..40].copy_from_slice(&octets.octets());
        // The source is mapped, too, so that it looks like the peer's own address.
        packet[8..24].copy_from_slice(&std::net::Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped().octets());
        assert!(!both.arrives(&packet), "{destination}");
    }
    both.there.assert_dropped(DropReason::SourceNotAllowed, embedding.len() as u64);
    assert!(both.arrives(&from_here().udp((1, 2), b"x")));
}

#[test]
fn fault_g7_an_error_passes_for_a_flow_that_is_known_and_opens_nothing() {
    let mut both = Guarded::new(vec![to_ports(&[(22, 22)], &[])]);
    let error = |quoted: &[u8]| from_here().carry(ICMP, &[&[3, 4, 0, 0, 0, 0, 2, 0], quoted].concat());
    let ours = from_there().udp((5_000, 53), b"question");
    assert!(!both.arrives(&error(&ours)), "forged: nothing was sent");
    assert!(!both.arrives(&from_here().udp((53, 5_000), b"x")), "and it opened nothing");
    both.answers(&ours);
    assert!(both.arrives(&error(&ours)));
    // The errors quote packets of the server: a rule allows port 22, and no rule allows port 23.
    assert!(both.arrives(&error(&from_there().tcp(&segment(22, 40_000, tcp::ACK)))));
    assert!(!both.arrives(&error(&from_there().tcp(&segment(23, 40_000, tcp::ACK)))));
    // The error quotes a packet that this host did not send.
    let foreign = Ip { source: 9, destination: 1, ..Ip::v4() }.udp((5_000, 53), b"x");
    assert!(!both.arrives(&error(&foreign)));
    assert_eq!(both.there.dropped(DropReason::PolicyError), 3);
}

#[test]
fn fault_g8_a_removed_rule_cuts_the_flows_that_it_allowed_and_no_other() {
    let mut both = Guarded::new(vec![to_ports(&[(0, 65_535)], &[])]);
    let theirs = from_here().tcp(&segment(40_000, 22, tcp::ACK));
    let ours = from_there().tcp(&segment(50_000, 80, tcp::ACK));
    assert!(both.arrives(&theirs));
    both.answers(&ours);
    let narrow = Services::new(ServicePorts::new([22], 32_768), Some(1_000));
    both.set(vec![], narrow);
    assert!(!both.arrives(&theirs));
    // The server goes on sending, which must not open the way back.
    both.answers(&from_there().tcp(&segment(22, 40_000, tcp::ACK)));
    assert!(!both.arrives(&theirs));
    both.answers(&from_there().udp((53, 40_000), b"x"));
    assert!(!both.arrives(&from_here().udp((40_000, 53), b"x")));
    // The connection that host 2 began goes on.
    both.answers(&ours);
    assert!(both.arrives(&from_here().tcp(&segment(80, 50_000, tcp::ACK))));
}

#[test]
fn other_routes_with_the_same_rules_keep_what_was_prepared() {
    let mut both = Guarded::new(vec![]);
    let filter = Arc::new(PacketFilter::new(&Filter { rules: vec![to_ports(&[(22, 22)], &[])] }));
    let prepared = |filter: &Arc<PacketFilter>| Arc::strong_count(filter) - 2;
    both.set_filter(&filter, Services::default());
    assert_eq!(prepared(&filter), 0);
    assert!(both.arrives(&from_here().tcp(&segment(40_000, 22, tcp::ACK))));
    both.set_filter(&filter, Services::default());
    assert_eq!(prepared(&filter), 1, "the rules for host 1");
    let other = Arc::new(PacketFilter::default());
    both.set_filter(&other, Services::default());
    assert_eq!(Arc::strong_count(&filter), 1, "nothing keeps the former rules");
    assert!(!both.arrives(&from_here().tcp(&segment(40_000, 22, tcp::ACK))));
}

#[test]
fn fault_g8_another_peer_cannot_use_a_flow() {
    let mut both = Guarded::new(vec![]);
    both.answers(&from_there().udp((5_000, 53), b"question"));
    // If the address moves to another peer, that peer's packets have the flow's addresses and ports, but do not belong to the flow.
    let other = taut_base::PeerId(99);
    let seen = taut_filter::Classified::of(&taut_wire::ip::Packet::parse(&from_here().udp((53, 5_000), b"x")).unwrap())
        .unwrap();
    let flow = |peer| taut_filter::FlowKey::received(&seen, peer).unwrap();
    assert!(both.flows.is_known(&flow(PEER), 1_001) && !both.flows.is_known(&flow(other), 1_001));
}

#[test]
fn many_lanes_may_use_the_table_at_once() {
    let flows = FlowTable::new([7; 16]);
    let seen = |port| {
        let packet = from_there().udp((port, 53), b"x");
        taut_filter::Classified::of(&taut_wire::ip::Packet::parse(&packet).unwrap()).unwrap()
    };
    let key = |lane, port| taut_filter::FlowKey::sent(&seen(port), taut_base::PeerId(lane)).unwrap();
    std::thread::scope(|scope| {
        for lane in 0..4 {
            let (flows, key) = (&flows, &key);
            scope.spawn(move || {
                for port in 0..10_000 {
                    let class = taut_filter::FlowClass::Datagrams;
                    assert_ne!(flows.remember(&key(lane, port), class, 1), taut_filter::Remembered::NoRoom);
                    // All lanes note the flows of the ninth peer.
                    flows.remember(&key(9, port), class, 1);
                }
            });
        }
    });
    for port in 0..10_000 {
        assert!((0..4).chain([9]).all(|peer| flows.is_answer(&key(peer, port), taut_filter::Answer::Continues, 1)));
    }
    // Lanes that add a flow at the same moment may give it two places, which costs memory only.
    assert!((50_000..52_000).contains(&flows.len()), "{}", flows.len());
}

/// Makes host 2 the router of 10.0.0.0/24, with these rules, and host 1 send there.
fn router(rules: Vec<Rule>) -> Guarded {
    let mut both = Guarded::new(vec![]);
    let all = prefix("10.0.0.0/24");
    both.here.command(ToLane::Routes(Routes::new([(all, PEER)]).into()), at(0));
    let filter = Arc::new(PacketFilter::new(&Filter { rules }));
    let gate = Gate { filter, flows: Arc::clone(&both.flows), services: Services::default() };
    let routes = Routes::new([(prefix(HERE), PEER)]).only_to(&[prefix(THERE).address()]).forwarding(&[all]);
    both.there.command(ToLane::Routes(routes.guarded_by(Some(gate.into())).into()), at(0));
    both
}

#[test]
fn fault_g3_a_router_forwards_what_a_rule_allows_and_nothing_else() {
    let dst = vec![Target { prefix: prefix("10.0.0.9/32"), ports: vec![(443, 443)] }];
    let mut both = router(vec![Rule { src: vec![prefix(HERE)], proto: vec![6], dst }]);
    let to = |destination, port| Ip { destination, ..from_here() }.tcp(&segment(40_000, port, tcp::SYN));
    for (allowed, packet) in [(true, to(9, 443)), (false, to(9, 22)), (false, to(8, 443)), (false, to(2, 443))] {
        assert_eq!(both.arrives(&packet), allowed, "{packet:?}");
    }
    both.there.assert_dropped(DropReason::Policy, 3);
}

#[test]
fn fault_g2_a_host_behind_a_peer_sends_only_from_a_route_of_that_peer() {
    let mut both = Guarded::new(vec![]);
    let open = Rule { src: vec![prefix("0.0.0.0/0")], ..to_ports(&[(0, 65_535)], &[]) };
    let filter = Arc::new(PacketFilter::new(&Filter { rules: vec![open] }));
    let from = |source| Ip { source, ..from_here() }.udp((7, 7), b"x");
    for (route, allowed) in [("10.0.0.8/29", true), ("10.0.1.0/24", false)] {
        let gate = Gate { filter: Arc::clone(&filter), flows: Arc::clone(&both.flows), services: Services::default() };
        let routes = Routes::new([(prefix(HERE), PEER), (prefix(route), PEER)]).only_to(&[prefix(THERE).address()]);
        both.there.command(ToLane::Routes(routes.guarded_by(Some(gate.into())).into()), at(0));
        assert_eq!(both.arrives(&from(9)), allowed, "{route}");
    }
    both.there.assert_dropped(DropReason::SourceNotAllowed, 1);
}
