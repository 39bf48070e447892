use super::*;
use crate::ip::Packet;
use crate::testkit::{Ip, payload};

const ALL: [Ecn; 4] = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce];

#[test]
fn the_bits_are_those_of_rfc_3168() {
    for (bits, ecn) in (0..4).zip(ALL) {
        assert_eq!(ecn.bits(), bits);
        assert_eq!(Ecn::of(0xfc | bits), ecn);
    }
}

#[test]
fn fault_i6_marks_are_joined_as_figure_4_of_rfc_6040_says() {
    use Ecn::{Ce, Ect0, Ect1, NotEct};
    // Columns: outer Not-ECT, ECT(0), ECT(1), CE.
    let figure = [
        (NotEct, [Some(NotEct), Some(NotEct), Some(NotEct), None]),
        (Ect0, [Some(Ect0), Some(Ect0), Some(Ect1), Some(Ce)]),
        (Ect1, [Some(Ect1), Some(Ect1), Some(Ect1), Some(Ce)]),
        (Ce, [Some(Ce); 4]),
    ];
    for (inner, row) in figure {
        for (outer, leaves) in [NotEct, Ect0, Ect1, Ce].into_iter().zip(row) {
            assert_eq!(inner.decapsulated(outer), leaves, "{inner:?} in {outer:?}");
        }
    }
}

#[test]
fn fault_i6_a_packet_gets_the_mark_and_nothing_else_changes() {
    for (six, dscp, inner, outer) in
        [false, true].iter().flat_map(|six| (0..64_u8).map(move |dscp| (*six, dscp))).flat_map(|(six, dscp)| {
            ALL.into_iter().flat_map(move |inner| ALL.into_iter().map(move |outer| (six, dscp, inner, outer)))
        })
    {
        let tos = dscp << 2 | inner.bits();
        let sent = |tos| Ip { six, tos, ..Ip::v4() };
        let before = sent(tos).udp((1, 2), &payload(100, 7));
        let mut packet = before.clone();
        let Some(leaves) = inner.decapsulated(outer) else {
            assert_eq!(decapsulate(&mut packet, outer), Err(NotEcnCapable));
            assert_eq!(packet, before);
            continue;
        };
        assert_eq!(decapsulate(&mut packet, outer), Ok(()));
        let same = sent(dscp << 2 | leaves.bits()).udp((1, 2), &payload(100, 7));
        assert_eq!(packet, same, "as if it had been sent with that mark");
    }
}

#[test]
fn a_wrong_header_checksum_stays_as_wrong() {
    let mut packet = Ip { tos: 2, ..Ip::v4() }.udp((1, 2), &payload(10, 7));
    packet[10] ^= 0x40;
    decapsulate(&mut packet, Ecn::Ce).unwrap();
    assert!(!Packet::parse(&packet).unwrap().header_checksum_ok());
    packet[10] ^= 0x40;
    assert!(Packet::parse(&packet).unwrap().header_checksum_ok());
}

#[test]
fn only_a_transport_that_supports_ecn_is_marked_and_only_once() {
    for (six, inner) in [false, true].into_iter().flat_map(|six| ALL.map(|inner| (six, inner))) {
        let sent = |ecn: Ecn| Ip { six, tos: 0xb8 | ecn.bits(), ..Ip::v4() }.udp((1, 2), &payload(100, 7));
        let mut packet = sent(inner);
        let capable = matches!(inner, Ecn::Ect0 | Ecn::Ect1);
        assert_eq!(mark(&mut packet), capable);
        assert_eq!(packet, sent(if capable { Ecn::Ce } else { inner }), "{inner:?}");
        assert!(!mark(&mut packet));
    }
}
