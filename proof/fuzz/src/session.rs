//! Two whole nodes in the world of `taut-sim`, and an attacker on the wire that alters, repeats and forges datagrams. The world checks that each delivered
//! packet was sent, arrives once and is whole, and that the hosts' state stays within its bounds.

use std::net::SocketAddr;
use std::time::Duration;

use taut_sim::{Link, Party, Recorded, Settings, Side, TautHost, World, map_for};

use crate::input::Input;

/// Maximum number of steps of a script that are executed, 24; one step may be a handshake.
const MAX_STEPS: usize = 24;
/// Maximum number of datagrams that the attacker keeps, 64.
const MAX_HISTORY: usize = 64;
/// A link without loss: this target does not test losses.
const LINK: Link = Link::clean(Duration::from_millis(10));

/// The script: each step is a kind, a side and its operands.
pub(crate) fn session(data: &[u8]) {
    let (a, b) = (Party::new(1), Party::new(2));
    let host = |me: &Party, other: &Party, seed| TautHost::new(me, map_for(me, &[other]), Settings::default(), seed);
    let mut world = World::new((&a, host(&a, &b, 1)), (&b, host(&b, &a, 2)), LINK, 3);
    world.record();
    let mut history: Vec<Recorded> = Vec::new();
    let mut input = Input::new(data);
    for _ in 0..MAX_STEPS {
        if input.is_empty() {
            break;
        }
        step(&mut world, &mut history, &mut input);
        history.extend(world.take_history());
        history.truncate(MAX_HISTORY);
        world.record();
    }
    // After any script the two nodes reach each other again.
    world.run(Duration::from_secs(200));
    let arrived = world.ledger(Side::A).arrived();
    world.send(Side::A);
    world.run(Duration::from_secs(30));
    assert!(world.ledger(Side::A).arrived() > arrived, "the two nodes no longer reach each other");
}

fn step(world: &mut World<TautHost, TautHost>, history: &mut [Recorded], input: &mut Input<'_>) {
    let how = input.byte();
    let side = if how & 0x80 == 0 { Side::A } else { Side::B };
    match how % 6 {
        0 => world.send(side),
        1 => world.run(Duration::from_millis(u64::from(input.word()))),
        // An earlier datagram, perhaps altered, cut or from another address.
        2 => {
            let number = usize::from(input.byte());
            let (place, mask, cut) = (usize::from(input.word()), input.byte(), usize::from(input.byte()));
            let Some(old) = history.get(number % history.len().max(1)) else { return };
            let mut datagram = old.datagram.clone();
            let length = datagram.len();
            datagram[place % length] ^= mask;
            datagram.truncate(length - cut.min(length - 1));
            world.inject(side, source(input.byte()), &datagram);
        }
        3 => {
            let from = source(input.byte());
            world.inject(side, from, input.piece());
        }
        4 => match side {
            Side::A => world.with_a(TautHost::restart),
            Side::B => world.with_b(TautHost::restart),
        },
        _ => world.sleep(Duration::from_secs(u64::from(input.byte()))),
    }
}

/// The other node's endpoint, or the attacker's.
fn source(choice: u8) -> SocketAddr {
    match choice % 3 {
        0 => SocketAddr::from(([192, 0, 2, 1], 8288)),
        1 => SocketAddr::from(([192, 0, 2, 2], 8288)),
        _ => SocketAddr::from(([198, 51, 100, 9], 9)),
    }
}
