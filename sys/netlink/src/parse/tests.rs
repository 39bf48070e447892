use super::{Malformed, Message, attributes, ip, messages, text};
use crate::message::NetlinkRequest;
use crate::{Scope, abi, address, link, route};
use std::net::IpAddr;

fn number(value: u32) -> [u8; 4] {
    value.to_ne_bytes()
}

/// Returns an interface as the kernel sends it.
fn link_bytes() -> Vec<u8> {
    let mut fixed = [0; 16];
    fixed[4..8].copy_from_slice(&number(3));
    fixed[8..12].copy_from_slice(&number(abi::IFF_UP | abi::IFF_RUNNING));
    NetlinkRequest::new(abi::RTM_NEWLINK, 0, &fixed)
        .attribute(abi::IFLA_IFNAME, b"taut0\0")
        .number(abi::IFLA_MTU, 1_420)
        .number(abi::IFLA_TXQLEN, 500)
        .attribute(999, b"from a newer kernel")
        .finish(1)
}

/// Returns the local address of an IPv4 point-to-point link as the kernel sends it.
fn address_bytes() -> Vec<u8> {
    NetlinkRequest::new(abi::RTM_NEWADDR, 0, &[abi::AF_INET, 30, 0x01, 0, 3, 0, 0, 0])
        .attribute(abi::IFA_ADDRESS, &[10, 0, 0, 2])
        .attribute(abi::IFA_LOCAL, &[10, 0, 0, 1])
        .number(abi::IFA_FLAGS, abi::IFA_F_DEPRECATED | abi::IFA_F_TEMPORARY)
        .finish(1)
}

fn route_bytes() -> Vec<u8> {
    let metrics = NetlinkRequest::new(0, 0, &[])
        .number(1, 7)
        .number(abi::RTAX_MTU, 1_300)
        .number(abi::RTAX_FEATURES, 3)
        .finish(0);
    NetlinkRequest::new(abi::RTM_NEWROUTE, 0, &[abi::AF_INET, 8, 0, 0, 254, 116, 0, abi::RTN_UNICAST, 0, 0, 0, 0])
        .number(abi::RTA_TABLE, 51_820)
        .attribute(abi::RTA_DST, &[10, 0, 0, 0])
        .attribute(abi::RTA_GATEWAY, &[192, 0, 2, 1])
        .number(abi::RTA_OIF, 4)
        .number(abi::RTA_PRIORITY, 9)
        .attribute(abi::RTA_METRICS | 0x8000, &metrics[16..])
        .finish(1)
}

fn only(bytes: &[u8]) -> Message<'_> {
    let mut all = messages(bytes);
    let first = all.next().unwrap().unwrap();
    assert_eq!(all.next(), None);
    first
}

/// Reads a datagram as an answer of each kind. Returns the number of objects in it.
fn read_everything(bytes: &[u8]) -> Result<usize, Malformed> {
    let mut objects = 0;
    for message in messages(bytes) {
        let message = message?;
        objects += usize::from(link::read(message)?.is_some());
        objects += usize::from(address::read(message)?.is_some());
        objects += usize::from(route::read(message)?.is_some());
    }
    Ok(objects)
}

#[test]
fn a_link_is_read() {
    let bytes = link_bytes();
    let link = link::read(only(&bytes)).unwrap().unwrap();
    assert_eq!((link.index, link.name.as_str(), link.mtu, link.tx_queue_len), (3, "taut0", 1_420, 500));
    assert_eq!((link.up, link.running, link.loopback), (true, true, false));
}

#[test]
fn drops_before_a_link_are_the_eighth_counter() {
    let counters: Vec<u8> = (1..=24_u64).flat_map(u64::to_ne_bytes).collect();
    let with = |counters: &[u8]| {
        NetlinkRequest::new(abi::RTM_NEWLINK, 0, &[0; 16]).attribute(abi::IFLA_STATS64, counters).finish(1)
    };
    let bytes = with(&counters);
    assert_eq!(link::dropped_before(only(&bytes)), Ok(Some(8)));
    assert_eq!(link::dropped_before(only(&link_bytes())), Ok(None));
    assert!(link::dropped_before(only(&with(&counters[..63]))).is_err(), "the counters were cut off");
}

#[test]
fn an_address_is_the_local_one_with_its_32_bit_flags() {
    let bytes = address_bytes();
    let address = address::read(only(&bytes)).unwrap().unwrap();
    assert_eq!((address.ip, address.prefix_len), (IpAddr::from([10, 0, 0, 1]), 30));
    assert_eq!((address.scope, address.deprecated, address.tentative), (Scope::Global, true, false));
    assert!(!address.temporary, "the flag IFA_F_TEMPORARY has another meaning for IPv4");
}

#[test]
fn a_route_is_read_with_its_metrics_and_its_32_bit_table() {
    let bytes = route_bytes();
    let route = route::read(only(&bytes)).unwrap().unwrap();
    assert_eq!((route.destination, route.prefix_len), (IpAddr::from([10, 0, 0, 0]), 8));
    assert_eq!((route.gateway, route.interface), (Some(IpAddr::from([192, 0, 2, 1])), Some(4)));
    assert_eq!((route.mtu, route.metric, route.table, route.protocol), (Some(1_300), 9, 51_820, 116));
}

#[test]
fn routes_that_forward_no_packets_are_skipped() {
    let mut blackhole = route_bytes();
    blackhole[16 + 7] = 6;
    assert_eq!(read_everything(&blackhole), Ok(0));
    let mut multicast = route_bytes();
    multicast[16] = 129;
    assert_eq!(read_everything(&multicast), Ok(0));
}

#[test]
fn several_messages_in_one_datagram_are_all_read() {
    let all = [link_bytes(), address_bytes(), route_bytes()].concat();
    assert_eq!(read_everything(&all), Ok(3));
}

#[test]
fn every_truncation_is_an_error_and_never_a_panic() {
    for bytes in [link_bytes(), address_bytes(), route_bytes()] {
        for length in 1..bytes.len() {
            assert!(read_everything(&bytes[..length]).is_err(), "the header promises more than {length}");
            // The same cut with a correct length in the header, so that only the attributes are cut off.
            let mut cut = bytes[..length].to_vec();
            if let Some(field) = cut.first_chunk_mut() {
                *field = number(u32::try_from(length).unwrap());
            }
            let _ = read_everything(&cut);
        }
    }
}

#[test]
fn no_single_altered_byte_makes_the_parser_panic() {
    for bytes in [link_bytes(), address_bytes(), route_bytes()] {
        for position in 0..bytes.len() {
            for value in 0..=u8::MAX {
                let mut wrong = bytes.clone();
                wrong[position] = value;
                let _ = read_everything(&wrong);
            }
        }
    }
}

#[test]
fn lengths_below_the_header_end_the_iteration_with_an_error() {
    for length in [0, 1, 15] {
        let mut bytes = link_bytes();
        bytes[0..4].copy_from_slice(&number(length));
        let all: Vec<_> = messages(&bytes).collect();
        assert_eq!(all, [Err(Malformed("message length"))]);
    }
    for length in [0_u16, 1, 3] {
        let [a, b] = length.to_ne_bytes();
        assert_eq!(attributes(&[a, b, 1, 0, 9, 9, 9, 9]).collect::<Vec<_>>(), [Err(Malformed("attribute length"))]);
    }
    assert!(attributes(&[4]).next().unwrap().is_err());
}

#[test]
fn values_have_the_right_length() {
    assert_eq!(ip(&[127, 0, 0, 1]), Ok(IpAddr::from([127, 0, 0, 1])));
    assert!(ip(&[0; 16]).is_ok_and(|ip| ip.is_ipv6()));
    assert_eq!(ip(&[1, 2, 3]), Err(Malformed("address length")));
    assert_eq!((text(b"lo\0rest").as_str(), text(b"lo").as_str(), text(b"").as_str()), ("lo", "lo", ""));
}
