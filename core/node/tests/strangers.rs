//! Initiations with a valid mac1 that no peer made: they cost one Diffie-Hellman and are not answered.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use taut_base::{PresharedKey, PrivateKey, ReceiverIndex, Time};
use taut_node::uapi::PeerChange;
use taut_node::{Clocks, FromLane, HandshakeMessage, Node, Output, ToLane};
use taut_noise::public_key;
use taut_tunnel::Limits;
use taut_tunnel::cookie::{CookieChecker, mac1};
use taut_tunnel::handshake::{Identity, Remote, SentInitiation, Timestamp};
use taut_wire::wireguard::initiation;

type Noise = Box<dyn FnMut(&mut [u8])>;

fn key(byte: u8) -> PrivateKey {
    PrivateKey::from_bytes([byte; 32])
}

/// Returns a node with key 2 whose only peer has key 1, its checker, and its number of draws of randomness. Static-static secrets are computed when a peer is added,
/// so each Diffie-Hellman of a handshake after the first one needs a fresh key: a node that draws nothing has computed at most one.
fn node() -> (Node<Noise>, CookieChecker, Rc<Cell<u32>>) {
    let drawn = Rc::new(Cell::new(0));
    let count = Rc::clone(&drawn);
    let noise: Noise = Box::new(move |bytes| {
        count.set(count.get() + 1);
        bytes.fill(u8::try_from(count.get() % 251).unwrap());
    });
    let mut node = Node::new(key(2), Limits::WIREGUARD, noise);
    let checker = node.checker();
    let allowed = vec![("10.0.0.1/32".parse().unwrap(), true)];
    node.configure(false, vec![PeerChange { allowed, ..PeerChange::new(public_key(&key(1))) }]).unwrap();
    commands(&mut node);
    drawn.set(0);
    (node, checker, drawn)
}

/// Returns an initiation to the node from this key.
fn initiation_of(from: u8) -> [u8; initiation::LEN] {
    let from = Identity::new(key(from));
    let to = Remote::new(&from, public_key(&key(2)), PresharedKey::NONE).unwrap();
    let stamp = Timestamp::from_wall_clock(Duration::from_secs(1));
    SentInitiation::start(&from, &to, ReceiverIndex(16), stamp, key(9)).unwrap().1
}

/// Returns an initiation with random bytes from `start` on and a valid mac1.
fn around_noise(start: usize, seed: u8) -> [u8; initiation::LEN] {
    let mut message = initiation_of(1);
    let mut state = u32::from(seed) + 1;
    for byte in &mut message[start..initiation::MAC1.start] {
        state = state.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
        *byte = state.to_be_bytes()[0];
    }
    let mac1_key = taut_noise::hash(&[b"mac1----", public_key(&key(2)).as_bytes()]);
    let mac = taut_noise::keyed_mac(&mac1_key, &message[..initiation::MAC1.start]);
    message[initiation::MAC1].copy_from_slice(&mac);
    message
}

fn receive(node: &mut Node<Noise>, message: &[u8]) -> Vec<ToLane> {
    let time = Duration::from_secs(1_000);
    let clocks = Clocks { now: Time::from_duration(time), wall: time };
    let message = HandshakeMessage::new(message).unwrap();
    node.handle_lane(FromLane::Handshake { source: SocketAddr::from(([192, 0, 2, 1], 1)).into(), message }, clocks);
    commands(node)
}

fn commands(node: &mut Node<Noise>) -> Vec<ToLane> {
    let command = |output| match output {
        Output::Lane(_, command) => Some(command),
        _ => None,
    };
    std::iter::from_fn(|| node.poll_output()).filter_map(command).collect()
}

/// Asserts that these messages pass the checker and are not answered, and that the peer's own initiation is answered afterwards.
#[track_caller]
fn assert_silent(messages: impl Iterator<Item = [u8; initiation::LEN]>) {
    let (mut node, checker, drawn) = node();
    for message in messages {
        assert!(mac1(&message).is_some() && checker.is_for_us(&message), "the message passes the checker");
        assert!(receive(&mut node, &message).is_empty(), "an answer");
        assert_eq!((drawn.get(), node.indices_in_use()), (0, 0), "no second Diffie-Hellman, and no index is kept");
    }
    assert!(node.peers().all(|peer| peer.proven.is_none()), "no endpoint moved");
    let answered = receive(&mut node, &initiation_of(1));
    assert!(matches!(answered[..], [ToLane::AddSession { .. }, ToLane::Send { .. }]));
    assert!(drawn.get() > 0, "an answer draws a key, which proves that draws are counted");
}

#[test]
fn fault_a6_an_initiation_of_random_bytes_costs_one_diffie_hellman_and_is_not_answered() {
    // Random from the ephemeral key on, from the sender's encrypted key on, or from the timestamp on, which follows the key of a real peer.
    let starts = [initiation::EPHEMERAL.start, initiation::STATIC.start, initiation::TIMESTAMP.start];
    assert_silent((0..60).map(|number| around_noise(starts[usize::from(number) % 3], number)));
}

#[test]
fn fault_a7_an_initiation_from_an_unknown_key_is_not_answered() {
    assert_silent((3..63).map(initiation_of));
}
