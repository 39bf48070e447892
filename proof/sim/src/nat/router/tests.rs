use std::time::Duration;

use super::*;
use crate::nat::kind::Kind;

const NOW: Time = Time(1_000_000_000);
const EXTERNAL: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);

fn router(kind: Kind) -> Router {
    Router::new(kind.traits(), EXTERNAL, 7)
}

fn inside(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(192, 168, 1, 2), port)
}

fn remote(host: u8, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, host), port)
}

/// Returns which of three senders may send in after one datagram to the first address: another address, another port of the same address, the same
/// endpoint.
fn let_in(kind: Kind) -> [bool; 3] {
    let mut router = router(kind);
    let outer = router.outbound(inside(1), remote(1, 1), NOW).unwrap();
    [remote(2, 1), remote(1, 2), remote(1, 1)].map(|source| router.inbound(source, outer, NOW) == Ok(inside(1)))
}

#[test]
fn filters_are_what_their_names_say() {
    assert_eq!(let_in(Kind::FullCone), [true, true, true]);
    assert_eq!(let_in(Kind::AddressRestricted), [false, true, true]);
    assert_eq!(let_in(Kind::PortRestricted), [false, false, true]);
    assert_eq!(let_in(Kind::Symmetric), [false, false, true]);
    assert_eq!(let_in(Kind::Firewall), [false, false, true]);
    assert_eq!(let_in(Kind::Open), [true, true, true]);
}

#[test]
fn mappings_are_what_their_names_say() {
    let seen = |kind| {
        let mut router = router(kind);
        [remote(1, 1), remote(1, 2), remote(2, 1)].map(|to| router.outbound(inside(1), to, NOW).unwrap())
    };
    let [a, b, c] = seen(Kind::PortRestricted);
    assert!(a == b && b == c && *a.ip() == EXTERNAL);
    let [a, b, c] = seen(Kind::Symmetric);
    assert!(a != b && b != c && a != c);
    let [a, b, c] = seen(Kind::Predictable);
    assert_eq!([b.port(), c.port()], [a.port() + 1, a.port() + 2]);
    assert_eq!(seen(Kind::Firewall), [inside(1); 3]);
}

#[test]
fn nothing_comes_in_before_something_went_out() {
    for kind in Kind::ALL.into_iter().filter(|kind| kind.traits().filtering != Filtering::None) {
        let to = if kind.traits().translates() { SocketAddrV4::new(EXTERNAL, 5000) } else { inside(1) };
        assert!(router(kind).inbound(remote(1, 1), to, NOW).is_err(), "{kind:?}");
    }
    assert_eq!(router(Kind::UdpBlocked).outbound(inside(1), remote(1, 1), NOW), Err(Refusal::Blocked));
}

#[test]
fn a_mapping_ends_with_its_time_and_going_out_renews_it() {
    let mut router = router(Kind::Timeout30);
    let outer = router.outbound(inside(1), remote(1, 1), NOW).unwrap();
    let almost = NOW + Duration::from_secs(29);
    assert_eq!(router.inbound(remote(1, 1), outer, almost), Ok(inside(1)));
    assert_eq!(router.outbound(inside(1), remote(1, 1), almost), Ok(outer));
    assert!(router.inbound(remote(1, 1), outer, NOW + Duration::from_secs(58)).is_ok());
    // Incoming datagrams do not extend a mapping.
    let over = almost + Duration::from_secs(30);
    assert_eq!(router.inbound(remote(1, 1), outer, over), Err(Refusal::NoMapping));
    assert_ne!(router.outbound(inside(1), remote(1, 1), over), Ok(outer));
}

#[test]
fn forgetting_keeps_ports_and_rebinding_does_not() {
    let mut router = router(Kind::FullCone);
    let outer = router.outbound(inside(1), remote(1, 1), NOW).unwrap();
    router.forget();
    assert_eq!(router.inbound(remote(1, 1), outer, NOW), Err(Refusal::NoMapping));
    assert_eq!(router.outbound(inside(1), remote(1, 1), NOW), Ok(outer));
    router.rebind();
    assert_ne!(router.outbound(inside(1), remote(1, 1), NOW), Ok(outer));
    let moved = Ipv4Addr::new(198, 51, 100, 9);
    router.change_address(moved);
    assert_eq!(*router.outbound(inside(1), remote(1, 1), NOW).unwrap().ip(), moved);
}

#[test]
fn tables_are_bounded_and_make_room_when_time_has_passed() {
    let mut router = router(Kind::Symmetric);
    let mut send = |port: u16, now| router.outbound(inside(port), remote(1, 1), now).is_ok();
    let went = (1..=16_400).filter(|port| send(*port, NOW)).count();
    assert_eq!(went, MAX_MAPPINGS);
    assert!(send(16_400, NOW + Duration::from_secs(300)));
    assert_eq!(router.mappings(), 1);
}
