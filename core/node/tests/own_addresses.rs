//! What a map says of the inner addresses that a node takes packets for (fault G15).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "what several tests share, of which this one needs a part")]
mod common;

use std::net::IpAddr;
use std::sync::Arc;

use common::{Dice, dice, key, map};
use taut_node::uapi::PeerChange;
use taut_node::{Node, Routes, ToLane};
use taut_noise::public_key;
use taut_tunnel::Limits;

fn told(node: &mut Node<Dice>) -> Arc<Routes> {
    let mut commands = std::iter::from_fn(|| node.poll_command());
    commands.find_map(|command| if let ToLane::Routes(routes) = command { Some(routes) } else { None }).unwrap()
}

fn inner(number: u8) -> IpAddr {
    IpAddr::from([100, 64, 0, number])
}

#[test]
fn fault_g15_a_node_of_a_network_takes_packets_for_its_own_addresses_and_a_native_one_for_all() {
    let mut node = Node::new(key(0), Limits::WIREGUARD, dice(1));
    let mut own = map(0, 0..3);
    node.set_map(&own);
    let routes = told(&mut node);
    let taken = |routes: &Routes| (1..=4).map(|number| routes.delivers_to(inner(number), false)).collect::<Vec<_>>();
    assert_eq!(taken(&routes), [true, false, false, false], "not those of its peers either");
    own.me.addresses = vec![inner(4)];
    node.set_map(&own);
    assert_eq!(taken(&told(&mut node)), [false, false, false, true]);

    let mut native = Node::new(key(0), Limits::WIREGUARD, dice(2));
    native.configure(false, vec![PeerChange::new(public_key(&key(1)))]).unwrap();
    assert_eq!(taken(&told(&mut native)), [true; 4]);
}
