//! Congestion marks are copied to the outer packet, and back to the inner one (RFC 6040).

use taut_wire::ecn::Ecn;
use taut_wire::vnet::VnetHeader;

use super::kit::{TestLane, add_session, at, keys, outer, packet, read};
use crate::batch::Flush;
use crate::drops::DropReason;

/// Returns a host with a session, and its peer.
fn ends() -> (TestLane, TestLane) {
    let (mut here, mut there) = (TestLane::new(1, 2), TestLane::new(2, 1));
    let (ours, theirs) = keys(1);
    here.command(add_session(1, ours, Some(outer(2)), at(0)), at(0));
    there.command(add_session(1, theirs, Some(outer(1)), at(0)), at(0));
    here.datagrams();
    (here, there)
}

/// Returns an IPv4 packet with these marks and a right header checksum.
fn marked(ecn: Ecn) -> Vec<u8> {
    let mut packet = packet(1, 2, 100);
    packet[1] = 0xb8 | ecn.bits();
    let sum =
        (0..20).step_by(2).filter(|at| *at != 10).map(|at| u32::from(u16::from_be_bytes([packet[at], packet[at + 1]])));
    let sum: u32 = sum.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    packet[10..12].copy_from_slice(&(!u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap()).to_be_bytes());
    packet
}

#[test]
fn fault_i6_the_outer_packet_has_the_congestion_marks_and_not_the_priority() {
    for ecn in [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce] {
        let (mut here, _) = ends();
        here.core.outbound(&read(VnetHeader::NONE, &marked(ecn)), &mut here.out, at(1));
        let mut transmit = [taut_udp::Transmit { destination: outer(0), contents: &[], segment_size: 0, ecn: 0 }];
        assert_eq!(here.out.transmits(Flush::All, &mut transmit), 1);
        assert_eq!(transmit[0].ecn, ecn.bits());
    }
}

#[test]
fn fault_i6_packets_with_other_marks_leave_in_other_messages() {
    let (mut here, _) = ends();
    for ecn in [Ecn::Ect0, Ecn::Ect0, Ecn::NotEct, Ecn::Ect0] {
        here.core.outbound(&read(VnetHeader::NONE, &marked(ecn)), &mut here.out, at(1));
    }
    let none = taut_udp::Transmit { destination: outer(0), contents: &[], segment_size: 0, ecn: 0 };
    let mut transmits = [none; 4];
    assert_eq!(here.out.transmits(Flush::All, &mut transmits), 3);
    assert_eq!(transmits.map(|transmit| transmit.ecn), [2, 0, 2, 0]);
}

#[test]
fn fault_i6_the_mark_of_a_router_reaches_the_inner_flow() {
    for (inner, outside, leaves) in [
        (Ecn::Ect0, Ecn::Ect0, Some(Ecn::Ect0)),
        (Ecn::Ect0, Ecn::Ce, Some(Ecn::Ce)),
        (Ecn::Ect0, Ecn::NotEct, Some(Ecn::Ect0)),
        (Ecn::NotEct, Ecn::Ce, None),
    ] {
        let (mut here, mut there) = ends();
        here.core.outbound(&read(VnetHeader::NONE, &marked(inner)), &mut here.out, at(1));
        there.core.arrived_at(None, outside);
        for datagram in here.datagrams() {
            there.inbound(outer(1), &datagram, datagram.len(), at(1));
        }
        let written: Vec<_> = there.io.written.iter().map(|(_, packet)| packet.clone()).collect();
        assert_eq!(written, leaves.map(marked).into_iter().collect::<Vec<_>>(), "{inner:?} in {outside:?}");
        assert_eq!(there.core.drops.count(DropReason::CongestionMet), u64::from(leaves.is_none()));
    }
}
