use super::*;
use crate::testkit::{Ip, naive_sum, payload};
use proptest::prelude::*;

fn addresses(six: bool) -> (IpAddr, IpAddr) {
    if six {
        ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap())
    } else {
        (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]))
    }
}

#[test]
fn known_v4_request() {
    let (source, destination) = addresses(false);
    let echo = Echo { kind: EchoKind::Request, ident: 0x1234, sequence: 1, payload: &[0xab, 0xcd] };
    let mut out = [0xee; 40];
    assert_eq!(echo.write_packet(source, destination, &mut out), Ok(30));
    assert_eq!(out[..10], [0x45, 0, 0, 30, 0, 0, 0x40, 0, 64, 1]);
    assert_eq!(naive_sum(&out[..20]), 0xffff);
    assert_eq!(out[20..22], [8, 0]);
    assert_eq!(out[24..30], [0x12, 0x34, 0, 1, 0xab, 0xcd]);
    assert_eq!(naive_sum(&out[20..30]), 0xffff);
    assert_eq!(out[30..], [0xee; 10]);
}

#[test]
fn known_v6_reply() {
    let (source, destination) = addresses(true);
    let echo = Echo { kind: EchoKind::Reply, ident: 7, sequence: 9, payload: &[1, 2, 3] };
    let mut out = [0xee; 51];
    assert_eq!(echo.write_packet(source, destination, &mut out), Ok(51));
    assert_eq!(out[..8], [0x60, 0, 0, 0, 0, 11, 58, 64]);
    assert_eq!(out[40..42], [129, 0]);
    let pseudo = [&out[8..40], &[0, 0, 0, 11, 0, 0, 0, 58]].concat();
    assert_eq!(naive_sum(&[&pseudo[..], &out[40..]].concat()), 0xffff);
}

#[test]
fn what_does_not_fit_has_a_name() {
    let (four, six) = (addresses(false), addresses(true));
    let echo = Echo { kind: EchoKind::Request, ident: 0, sequence: 0, payload: &[0; 100] };
    assert_eq!(echo.write_packet(four.0, four.1, &mut [0; 127]), Err(Unwritable::NoRoom { needed: 128 }));
    assert_eq!(echo.write_packet(four.0, four.1, &mut [0; 3]), Err(Unwritable::NoRoom { needed: 128 }));
    assert_eq!(echo.write_message(six.0, six.1, &mut [0; 107]), Err(Unwritable::NoRoom { needed: 108 }));
    assert_eq!(echo.write_packet(four.0, six.1, &mut [0; 200]), Err(Unwritable::MixedFamilies));
    let long = vec![0; 65_535];
    let echo = Echo { payload: &long, ..echo };
    assert_eq!(echo.write_packet(four.0, four.1, &mut vec![0; 70_000]), Err(Unwritable::TooLong));
}

#[test]
fn only_whole_echo_messages_are_read() {
    let read = |bytes: &[u8]| Echo::parse(&Packet::parse(bytes).unwrap()).map(|echo| echo.ident);
    assert_eq!(read(&Ip::v4().udp((1, 2), &[0; 9])), Err(NotEcho::OtherKind));
    assert_eq!(read(&Ip::v4().carry(ICMP, &[8, 0, 0, 0, 0, 0, 0])), Err(NotEcho::Short));
    assert_eq!(read(&Ip::v4().carry(ICMP, &[3, 1, 0xfc, 0xfe, 0, 0, 0, 0])), Err(NotEcho::OtherKind));
    assert_eq!(read(&Ip::v4().carry(ICMP, &[8, 0, 0xf7, 0xff, 0, 0, 0, 0])), Ok(0));
    assert_eq!(read(&Ip::v4().carry(ICMP, &[8, 0, 0xf7, 0xfe, 0, 0, 0, 0])), Err(NotEcho::Checksum));
    assert_eq!(read(&Ip::v6().carry(ICMP, &[8, 0, 0xf7, 0xff, 0, 0, 0, 0])), Err(NotEcho::OtherKind));
    let mut fragment = Ip::v4().carry(ICMP, &[8, 0, 0xf7, 0xff, 0, 0, 0, 0]);
    fragment[6] = 0x20;
    assert_eq!(read(&fragment), Err(NotEcho::OtherKind));
}

proptest! {
    #[test]
    fn what_is_written_is_read(six: bool, reply: bool, ident: u16, sequence: u16, len in 0_usize..200) {
        let (source, destination) = addresses(six);
        let payload = payload(len, 3);
        let kind = if reply { EchoKind::Reply } else { EchoKind::Request };
        let echo = Echo { kind, ident, sequence, payload: &payload };
        let mut out = [0xaa; 300];
        let len = echo.write_packet(source, destination, &mut out).unwrap();
        let packet = Packet::parse(&out).unwrap();
        prop_assert_eq!(packet.bytes().len(), len);
        prop_assert_eq!((packet.source(), packet.destination()), (source, destination));
        prop_assert!(packet.header_checksum_ok());
        prop_assert_eq!(Echo::parse(&packet), Ok(echo));
    }

    #[test]
    fn takes_any_message(six: bool, kind in 0_u8..140, message in proptest::collection::vec(any::<u8>(), 0..30)) {
        let (ip, protocol) = if six { (Ip::v6(), ICMPV6) } else { (Ip::v4(), ICMP) };
        let mut message = message;
        if let Some(byte) = message.first_mut() {
            *byte = kind;
        }
        let bytes = ip.carry(protocol, &message);
        let _ = Echo::parse(&Packet::parse(&bytes).unwrap());
    }
}
