use std::sync::Arc;

use taut_noise::public_key;
use taut_testkit::Seeded;
use taut_tunnel::Limits;

use super::*;
use crate::contract::{Clocks, FromLane, HandshakeMessage};
use crate::output::Output;
use crate::routes::Routes;

fn key(byte: u8) -> PrivateKey {
    PrivateKey::from_bytes([byte; 32])
}

fn public(byte: u8) -> PublicKey {
    public_key(&key(byte))
}

fn node(byte: u8) -> Node<Seeded> {
    Node::new(key(byte), Limits::WIREGUARD, Seeded::new(byte.into()))
}

fn at(milliseconds: u64) -> Clocks {
    let time = Duration::from_millis(1_000_000 + milliseconds);
    Clocks { now: Time::from_duration(time), wall: time }
}

fn allow(byte: u8, prefixes: &[&str]) -> PeerChange {
    let allowed = prefixes.iter().map(|text| (text.parse().unwrap(), true)).collect();
    PeerChange { allowed, ..PeerChange::new(public(byte)) }
}

fn commands(node: &mut Node<Seeded>) -> Vec<ToLane> {
    let command = |output| match output {
        Output::Lane(_, command) => Some(command),
        _ => None,
    };
    std::iter::from_fn(|| node.poll_output()).filter_map(command).collect()
}

fn routes(node: &mut Node<Seeded>) -> Arc<Routes> {
    let last = commands(node).into_iter().rev().find_map(|command| match command {
        ToLane::Routes(routes) => Some(routes),
        _ => None,
    });
    last.unwrap()
}

fn sent(node: &mut Node<Seeded>) -> Vec<(SocketAddr, HandshakeMessage)> {
    let send = |command| match command {
        ToLane::Send { way, message } => Some((way.first_hop(), message)),
        _ => None,
    };
    commands(node).into_iter().filter_map(send).collect()
}

fn owner(node: &Node<Seeded>, routes: &Routes, address: &str) -> Option<PublicKey> {
    let id = routes.lookup(address.parse().unwrap())?;
    node.native_peers().find(|peer| peer.id == id).map(|peer| peer.key)
}

#[test]
fn fault_g2_an_allowed_ip_moves_and_the_longest_prefix_wins() {
    let mut node = node(1);
    node.configure(false, vec![allow(2, &["10.0.0.0/8", "10.1.0.0/16"]), allow(3, &["10.1.0.0/16", "10.2.0.0/16"])])
        .unwrap();
    let table = routes(&mut node);
    assert_eq!(owner(&node, &table, "10.1.0.1"), Some(public(3)));
    assert_eq!(owner(&node, &table, "10.9.0.1"), Some(public(2)));
    // A peer can withdraw only its own prefix; traffic then falls back to the shorter one.
    let gone = PeerChange { allowed: vec![("10.1.0.0/16".parse().unwrap(), false)], ..PeerChange::new(public(2)) };
    node.configure(false, vec![gone]).unwrap();
    let table = routes(&mut node);
    assert_eq!(owner(&node, &table, "10.1.0.1"), Some(public(3)));
    node.configure(false, vec![PeerChange { replace_allowed: true, ..allow(3, &["fd00::/8"]) }]).unwrap();
    let table = routes(&mut node);
    assert_eq!(owner(&node, &table, "10.1.0.1"), Some(public(2)));
    assert_eq!(owner(&node, &table, "10.2.0.1"), Some(public(2)));
    assert_eq!(owner(&node, &table, "fd00::1"), Some(public(3)));
}

#[test]
fn peers_are_removed_added_and_replaced() {
    let mut node = node(1);
    let absent = PeerChange { update_only: true, ..allow(9, &["10.9.0.0/16"]) };
    let remove = || PeerChange { remove: true, ..PeerChange::new(public(2)) };
    let own = allow(1, &["10.0.0.0/8"]);
    node.configure(false, vec![allow(2, &["10.2.0.0/16"]), absent, own, allow(3, &[])]).unwrap();
    let keys = |node: &Node<Seeded>| node.native_peers().map(|peer| peer.key).collect::<Vec<_>>();
    assert_eq!(keys(&node), [public(2), public(3)]);
    node.configure(false, vec![remove(), allow(2, &[]), remove()]).unwrap();
    assert_eq!(keys(&node), [public(3)]);
    assert_eq!(node.allowed_ips().count(), 0);
    node.configure(true, vec![allow(4, &["::/0"])]).unwrap();
    assert_eq!(keys(&node), [public(4)]);
    node.set_private_key(key(4));
    assert_eq!((keys(&node).len(), node.allowed_ips().count()), (0, 0), "a peer with the node's own key is removed");
}

#[test]
fn fault_a8_a_key_of_low_order_is_refused_and_nothing_changes() {
    let mut node = node(1);
    let low = PeerChange::new(PublicKey([0; 32]));
    assert_eq!(node.configure(true, vec![allow(2, &["::/0"]), low]), Err(Errno::Invalid));
    assert_eq!(node.native_peers().count(), 0);
    assert!(commands(&mut node).is_empty());
}

#[test]
fn native_peers_get_stock_retransmissions_at_one_endpoint() {
    let mut node = node(1);
    let endpoint: SocketAddr = "127.0.0.1:5".parse().unwrap();
    node.configure(false, vec![PeerChange { endpoint: Some(endpoint), ..PeerChange::new(public(2)) }]).unwrap();
    let id = node.native_peers().next().unwrap().id;
    commands(&mut node);
    node.handle_lane(FromLane::WantsHandshake(id), at(0));
    let mut times = vec![];
    let (mut now, mut messages) = (0, vec![]);
    while now < 20_000 {
        node.handle_timeout(at(now));
        for (destination, message) in sent(&mut node) {
            assert_eq!(destination, endpoint);
            times.push(now / 5_000);
            messages.push(message);
        }
        now += 1;
    }
    assert_eq!(times, [0, 1, 2, 3]);
    messages.dedup();
    assert_eq!(messages.len(), 4, "each retransmission is a new initiation");
}

/// Makes a handshake from `here` to `there`. Returns true if it ended in a session.
fn shake(here: &mut Node<Seeded>, there: &mut Node<Seeded>, now: u64) -> bool {
    let (mine, yours): (SocketAddr, SocketAddr) = ("192.0.2.1:1".parse().unwrap(), "192.0.2.2:2".parse().unwrap());
    let id = here.native_peers().next().unwrap().id;
    here.handle_lane(FromLane::WantsHandshake(id), at(now));
    for (_, message) in sent(here) {
        there.handle_lane(FromLane::Handshake { source: mine.into(), message }, at(now));
    }
    for (_, message) in sent(there) {
        here.handle_lane(FromLane::Handshake { source: yours.into(), message }, at(now));
    }
    commands(here).iter().any(|command| matches!(command, ToLane::AddSession { .. }))
}

fn pair() -> (Node<Seeded>, Node<Seeded>) {
    let (mut here, mut there) = (node(1), node(2));
    let endpoint = Some("192.0.2.2:2".parse().unwrap());
    here.configure(false, vec![PeerChange { endpoint, ..allow(2, &["::/0"]) }]).unwrap();
    there.configure(false, vec![allow(1, &["::/0"])]).unwrap();
    commands(&mut here);
    commands(&mut there);
    (here, there)
}

#[test]
fn a_preshared_key_is_used_from_the_next_handshake_on() {
    let (mut here, mut there) = pair();
    assert!(shake(&mut here, &mut there, 0));
    let with = |byte| {
        let preshared = Some(PresharedKey::from_bytes([9; 32]));
        vec![PeerChange { preshared, ..PeerChange::new(public(byte)) }]
    };
    here.configure(false, with(2)).unwrap();
    assert!(!shake(&mut here, &mut there, 60_000), "only one side has the preshared key");
    there.configure(false, with(1)).unwrap();
    // The attempt continues until it gets a response; its next initiation is answered.
    there.handle_timeout(at(70_000));
    here.handle_timeout(at(70_000));
    for (_, message) in sent(&mut here) {
        there.handle_lane(
            FromLane::Handshake { source: SocketAddr::from(([192, 0, 2, 1], 1)).into(), message },
            at(70_000),
        );
    }
    let responses = sent(&mut there);
    assert_eq!(responses.len(), 1);
    here.handle_lane(FromLane::Handshake { source: responses[0].0.into(), message: responses[0].1 }, at(70_000));
    assert!(commands(&mut here).iter().any(|command| matches!(command, ToLane::AddSession { .. })));
}

#[test]
fn another_private_key_is_another_node() {
    let (mut here, mut there) = pair();
    assert!(shake(&mut here, &mut there, 0));
    here.set_private_key(key(7));
    here.start_over();
    let told = commands(&mut here);
    assert!(matches!(told[..], [ToLane::AddPeer { .. }, ToLane::SetEndpoint { .. }, ToLane::Routes(_)]));
    assert_eq!(here.indices_in_use(), 0);
    assert!(!shake(&mut here, &mut there, 60_000), "an unknown key");
    there.configure(true, vec![allow(7, &["::/0"])]).unwrap();
    commands(&mut there);
    here.start_over();
    commands(&mut here);
    assert!(shake(&mut here, &mut there, 120_000));
}

#[test]
fn the_answering_side_learns_the_endpoint_and_counts_bytes() {
    let (mut here, mut there) = pair();
    assert!(shake(&mut here, &mut there, 0));
    let peer = there.native_peers().next().unwrap();
    assert_eq!(peer.endpoint, Some("192.0.2.1:1".parse().unwrap()));
    assert_eq!(peer.handshake_bytes, (148, 92));
    let peer = here.native_peers().next().unwrap();
    assert_eq!(peer.handshake_bytes, (92, 148));
    assert!(peer.last_handshake.is_some());
}

#[test]
fn keepalive_is_told_when_it_changes() {
    let mut node = node(1);
    let every = |seconds: Option<u64>| {
        vec![PeerChange { keepalive: Some(seconds.map(Duration::from_secs)), ..PeerChange::new(public(2)) }]
    };
    let told = |node: &mut Node<Seeded>| {
        let keepalive = |command| match command {
            ToLane::SetKeepalive { interval, .. } => Some(interval.map(|interval| interval.as_secs())),
            _ => None,
        };
        commands(node).into_iter().filter_map(keepalive).collect::<Vec<_>>()
    };
    for (change, wanted) in [(None, vec![]), (Some(25), vec![Some(25)]), (Some(25), vec![]), (None, vec![None])] {
        node.configure(false, every(change)).unwrap();
        assert_eq!(told(&mut node), wanted);
    }
}
