//! Questions for names: who gets an answer, with which checksums, and who does not.

use std::net::IpAddr;
use std::sync::Arc;

use taut_base::Prefix;
use taut_dns::{Names, Network};
use taut_node::{FromLane, Routes, ToLane};
use taut_testkit::packets::{self, Ip, Tcp};
use taut_wire::vnet::{self, VnetHeader};

use super::kit::{PEER, TestLane, at, outer, pair, read};
use crate::drops::DropReason;

/// Last byte of the stub's address.
const STUB: u8 = 0;

/// Returns the overlay address of a host, as in the packets of the test kit.
fn inner(number: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, number])
}

/// Two hosts with a session; both have a stub.
fn hosts() -> (TestLane, TestLane) {
    let (mut here, mut there) = pair();
    for (host, own, peer) in [(&mut here, 1, 2), (&mut there, 2, 1)] {
        let prefixes = ["10.0.0.0/24", "fd12::/64"].map(|text| text.parse().unwrap());
        let network = Network { zone: "home.taut.internal", serial: 1, prefixes, own: &[inner(own)] };
        let nodes: [(&str, &[IpAddr]); 2] = [("a", &[inner(1)]), ("b", &[inner(2)])];
        let names = Names::new(network, nodes).map(Arc::new);
        let routes = Routes::new([(Prefix::host(inner(peer)), PEER)]).only_to(&[inner(own)]).with_names(names);
        host.command(ToLane::Routes(Arc::new(routes)), at(0));
    }
    (here, there)
}

/// A question for an A record of `b.home.taut.internal`.
fn question() -> Vec<u8> {
    let name = b"\x01b\x04home\x04taut\x08internal\0";
    [&[0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], name, &[0, 1, 0, 1]].concat()
}

fn from(source: u8, destination: u8) -> Ip {
    Ip { source, destination, ..Ip::v4() }
}

#[test]
fn a_question_of_the_host_is_answered_to_the_host() {
    let (mut here, _) = hosts();
    here.outbound(&from(1, STUB).udp((40_000, 53), &question()), at(1));
    let answer = here.core.poll_host_packet().unwrap();
    assert!(packets::is_right(&answer));
    assert_eq!((&answer[12..16], &answer[16..20]), (&[10, 0, 0, STUB][..], &[10, 0, 0, 1][..]));
    assert_eq!(answer[answer.len() - 4..], [10, 0, 0, 2]);
    assert!(here.core.poll_host_packet().is_none() && here.runs().is_empty(), "nothing leaves to peers");
}

#[test]
fn partial_checksums_are_completed_and_superpackets_are_cut() {
    let (mut here, _) = hosts();
    let mut packet = from(1, STUB).udp((40_000, 53), &question());
    packet[26..28].copy_from_slice(&[0x12, 0x34]);
    let partial = VnetHeader { flags: vnet::NEEDS_CSUM, csum_start: 20, csum_offset: 6, ..VnetHeader::NONE };
    here.core.outbound(&read(VnetHeader::NONE, &packet), &mut here.out, at(1));
    assert!(here.core.poll_host_packet().is_none(), "without the mark the checksum is wrong");
    here.assert_dropped(DropReason::Names, 1);
    // The field has the sum of the pseudo header.
    let sum = from(1, STUB).pseudo(17, packet.len() - 20);
    packet[26..28].copy_from_slice(&sum.to_be_bytes());
    here.core.outbound(&read(partial, &packet), &mut here.out, at(1));
    assert!(here.core.poll_host_packet().is_some());

    let size = question().len();
    let (header, packet) = from(1, STUB).udp_superpacket((40_000, 53), &question().repeat(3), size as u16);
    let read = [&header.encode()[..], &packet].concat();
    here.core.outbound(&read, &mut here.out, at(1));
    assert_eq!(std::iter::from_fn(|| here.core.poll_host_packet()).count(), 3);
}

#[test]
fn a_connection_is_answered_and_its_timer_is_the_lanes() {
    let (mut here, _) = hosts();
    assert!(here.core.poll_timeout().is_none_or(|due| due > at(60)));
    let syn = Tcp { source: 40_000, destination: 53, flags: 2, payload: Vec::new(), ..Tcp::default() };
    here.outbound(&from(1, STUB).tcp(&syn), at(1));
    assert_eq!(here.core.poll_host_packet().unwrap()[33], 0x12, "SYN and ACK");
    assert!(here.core.poll_timeout().is_some_and(|due| due < at(2)));
    here.time_passes(at(2));
    assert_eq!(here.core.poll_host_packet().unwrap()[33], 0x12, "again");
}

#[test]
fn fault_h8_packets_of_peers_never_reach_the_stub() {
    let (mut here, mut there) = hosts();
    // A peer that routes the stub's address of the other host into the overlay.
    let routes = Routes::new([(Prefix::host(inner(STUB)), PEER)]);
    here.command(ToLane::Routes(Arc::new(routes)), at(0));
    here.outbound(&from(1, STUB).udp((40_000, 53), &question()), at(1));
    for datagram in here.datagrams() {
        there.inbound(outer(1), &datagram, datagram.len(), at(1));
    }
    there.assert_dropped(DropReason::DestinationNotOurs, 1);
    assert!(there.core.poll_host_packet().is_none() && there.io.written.is_empty());
    // A host that forwards packets of others gives them no answer either.
    for source in [1, 7] {
        there.outbound(&from(source, STUB).udp((40_000, 53), &question()), at(1));
        assert!(there.core.poll_host_packet().is_none());
    }
    assert_eq!(there.dropped(DropReason::Names), 2);
}

#[test]
fn other_addresses_have_no_stub() {
    let (mut here, _) = hosts();
    here.outbound(&from(1, 9).udp((40_000, 53), &question()), at(1));
    here.assert_dropped(DropReason::NoRoute, 1);
    assert!(here.core.poll_host_packet().is_none());
}

#[test]
fn a_question_for_another_server_goes_to_the_agent_and_its_answer_to_the_host() {
    let (mut here, _) = hosts();
    let prefixes = ["10.0.0.0/24", "fd12::/64"].map(|text| text.parse().unwrap());
    let network = Network { zone: "home.taut.internal", serial: 1, prefixes, own: &[inner(1)] };
    let server = [inner(2)];
    let names = Names::new(network, []).unwrap().with_domains([("b.home.example", &server[..])]);
    let routes = Routes::new([(Prefix::host(inner(2)), PEER)]).only_to(&[inner(1)]).with_names(Some(Arc::new(names)));
    here.command(ToLane::Routes(Arc::new(routes)), at(0));
    let name = b"\x03www\x01b\x04home\x07example\0";
    let message = [&[0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], name, &[0, 1, 0, 1]].concat();
    here.outbound(&from(1, STUB).udp((40_000, 53), &message), at(1));
    assert!(here.core.poll_host_packet().is_none() && here.runs().is_empty());
    let asked = std::iter::from_fn(|| here.core.poll_output()).find_map(|message| match message {
        FromLane::Question(question) => Some(question),
        _ => None,
    });
    let asked = asked.expect("a question for the agent");
    assert_eq!((&asked.message, &*asked.servers), (&message, &server[..]));
    let mut answer = message;
    answer[2] |= 0x80;
    here.command(ToLane::Answer { client: asked.client, message: answer.clone().into() }, at(2));
    let packet = here.core.poll_host_packet().unwrap();
    assert!(packets::is_right(&packet) && packet.ends_with(&answer));
}
