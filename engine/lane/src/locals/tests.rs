use std::net::{IpAddr, SocketAddr};

use taut_udp::Local;
use taut_wire::wireguard::{TYPE_COOKIE_REPLY, TYPE_DATA, TYPE_INITIATION, TYPE_RESPONSE};

use super::{ASKED, Locals};

fn local(number: u8) -> Local {
    Local { address: IpAddr::from([10, 0, 0, number]), interface: 3 }
}

fn place(number: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], number))
}

/// From where each kind of message leaves: data, initiation, response, cookie reply.
fn leave(locals: &Locals, place: SocketAddr) -> [Option<Local>; 4] {
    [TYPE_DATA, TYPE_INITIATION, TYPE_RESPONSE, TYPE_COOKIE_REPLY].map(|kind| locals.of(place, &kind.to_le_bytes()))
}

#[test]
fn an_asker_is_answered_from_where_it_asked_and_moves_nothing_else() {
    let mut locals = Locals::default();
    locals.know(place(1), local(1));
    locals.tried(place(1), &TYPE_INITIATION.to_le_bytes());
    locals.arrival = Some(local(2));
    // Two places with the same hash would overwrite each other.
    let unknown = (2..).map(place).find(|other| locals.slot(*other) != locals.slot(place(1))).unwrap();
    locals.ask(place(1));
    locals.ask(unknown);
    assert_eq!(leave(&locals, place(1)), [local(1), local(1), local(2), local(2)].map(Some));
    assert_eq!(leave(&locals, unknown), [Some(local(2)), None, Some(local(2)), Some(local(2))]);
    assert_eq!(leave(&locals, place(1_000)), [None; 4]);
    locals.arrival = None;
    locals.ask(place(1_000));
    assert_eq!(leave(&locals, place(1_000)), [None; 4], "a socket that does not say");
}

#[test]
fn every_second_try_of_a_handshake_goes_as_the_routes_say() {
    let mut locals = Locals::default();
    locals.know(place(1), local(1));
    let initiation = TYPE_INITIATION.to_le_bytes();
    for wanted in [Some(local(1)), None, Some(local(1)), None] {
        locals.tried(place(1), &initiation);
        locals.tried(place(1), &TYPE_RESPONSE.to_le_bytes());
        locals.tried(place(2), &initiation);
        assert_eq!(locals.of(place(1), &initiation), wanted);
        assert_eq!(locals.of(place(1), &TYPE_DATA.to_le_bytes()), Some(local(1)), "data is not in doubt for that");
    }
    // A handshake that ended starts the count again.
    locals.tried(place(1), &initiation);
    locals.know(place(1), local(2));
    locals.tried(place(1), &initiation);
    assert_eq!(locals.of(place(1), &initiation), Some(local(2)));
}

#[test]
fn what_is_forgotten_is_forgotten_everywhere() {
    let mut locals = Locals::default();
    for number in 1..=4 {
        locals.know(place(number), local(1 + number as u8 % 2));
        locals.arrival = Some(local(1));
        locals.ask(place(number));
    }
    let shared = std::sync::Arc::clone(&locals.shared);
    assert_eq!(shared.all().len(), 4);
    locals.retain(&mut |_, local| local != self::local(1));
    assert_eq!(leave(&locals, place(2)), [None; 4]);
    assert_eq!(leave(&locals, place(1)), [Some(local(2)), None, Some(local(2)), Some(local(2))]);
    let mut left = shared.all();
    left.sort_by_key(|(place, _)| *place);
    assert_eq!(left, [(place(1), local(2)), (place(3), local(2))]);
}

#[test]
fn the_memory_of_askers_has_a_bound() {
    let mut locals = Locals { arrival: Some(local(1)), ..Locals::default() };
    for number in 0..10_000 {
        locals.ask(place(number));
    }
    assert_eq!((locals.asked.len(), locals.known.len()), (ASKED, 0));
    assert_eq!(locals.of(place(9_999), &TYPE_RESPONSE.to_le_bytes()), Some(local(1)), "the last one is answered");
}
