use std::net::{IpAddr, SocketAddr};

use taut_udp::Local;
use taut_wire::wireguard::{TYPE_COOKIE_REPLY, TYPE_DATA, TYPE_INITIATION, TYPE_RESPONSE};

use super::{ASKERS, LocalAddresses};

fn local(number: u8) -> Local {
    Local { address: IpAddr::from([10, 0, 0, number]), interface: 3 }
}

fn endpoint(number: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], number))
}

/// Returns the source address of each kind of message: data, initiation, response, cookie reply.
fn sources(locals: &LocalAddresses, endpoint: SocketAddr) -> [Option<Local>; 4] {
    [TYPE_DATA, TYPE_INITIATION, TYPE_RESPONSE, TYPE_COOKIE_REPLY]
        .map(|kind| locals.source_for(endpoint, &kind.to_le_bytes()))
}

#[test]
fn a_handshake_is_answered_from_the_address_it_came_to_and_changes_nothing_else() {
    let mut locals = LocalAddresses::default();
    locals.learn(endpoint(1), local(1));
    locals.sent(endpoint(1), &TYPE_INITIATION.to_le_bytes());
    locals.arrival = Some(local(2));
    // Two endpoints with the same hash would overwrite each other.
    let unknown = (2..).map(endpoint).find(|other| locals.slot(*other) != locals.slot(endpoint(1))).unwrap();
    locals.remember_asker(endpoint(1));
    locals.remember_asker(unknown);
    assert_eq!(sources(&locals, endpoint(1)), [local(1), local(1), local(2), local(2)].map(Some));
    assert_eq!(sources(&locals, unknown), [Some(local(2)), None, Some(local(2)), Some(local(2))]);
    assert_eq!(sources(&locals, endpoint(1_000)), [None; 4]);
    locals.arrival = None;
    locals.remember_asker(endpoint(1_000));
    assert_eq!(sources(&locals, endpoint(1_000)), [None; 4], "the socket does not tell the address");
}

#[test]
fn for_every_second_attempt_of_a_handshake_the_routes_choose() {
    let mut locals = LocalAddresses::default();
    locals.learn(endpoint(1), local(1));
    let initiation = TYPE_INITIATION.to_le_bytes();
    for wanted in [Some(local(1)), None, Some(local(1)), None] {
        locals.sent(endpoint(1), &initiation);
        locals.sent(endpoint(1), &TYPE_RESPONSE.to_le_bytes());
        locals.sent(endpoint(2), &initiation);
        assert_eq!(locals.source_for(endpoint(1), &initiation), wanted);
        assert_eq!(
            locals.source_for(endpoint(1), &TYPE_DATA.to_le_bytes()),
            Some(local(1)),
            "data keeps its source address"
        );
    }
    // A handshake that ended resets the count of attempts.
    locals.sent(endpoint(1), &initiation);
    locals.learn(endpoint(1), local(2));
    locals.sent(endpoint(1), &initiation);
    assert_eq!(locals.source_for(endpoint(1), &initiation), Some(local(2)));
}

#[test]
fn a_forgotten_address_is_removed_from_all_tables() {
    let mut locals = LocalAddresses::default();
    for number in 1..=4 {
        locals.learn(endpoint(number), local(1 + number as u8 % 2));
        locals.arrival = Some(local(1));
        locals.remember_asker(endpoint(number));
    }
    let shared = std::sync::Arc::clone(&locals.shared);
    assert_eq!(shared.all().len(), 4);
    locals.retain(&mut |_, local| local != self::local(1));
    assert_eq!(sources(&locals, endpoint(2)), [None; 4]);
    assert_eq!(sources(&locals, endpoint(1)), [Some(local(2)), None, Some(local(2)), Some(local(2))]);
    let mut left = shared.all();
    left.sort_by_key(|(endpoint, _)| *endpoint);
    assert_eq!(left, [(endpoint(1), local(2)), (endpoint(3), local(2))]);
}

#[test]
fn the_table_of_askers_has_a_bound() {
    let mut locals = LocalAddresses { arrival: Some(local(1)), ..LocalAddresses::default() };
    for number in 0..10_000 {
        locals.remember_asker(endpoint(number));
    }
    assert_eq!((locals.askers.len(), locals.known.len()), (ASKERS, 0));
    assert_eq!(
        locals.source_for(endpoint(9_999), &TYPE_RESPONSE.to_le_bytes()),
        Some(local(1)),
        "the last asker is answered"
    );
}
