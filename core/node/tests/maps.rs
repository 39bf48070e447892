//! Effects of a map: the inner addresses that a node accepts packets for (fault G15), and the endpoints that it ignores (fault D17).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "what several tests share, of which this one needs a part")]
mod common;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use common::{Seeded, key, lane_command, map, seeded};
use taut_base::{Prefix, Time};
use taut_node::uapi::PeerChange;
use taut_node::{Clocks, ExitWish, Node, Routes, ToLane};
use taut_noise::public_key;
use taut_path::Families;
use taut_tunnel::Limits;

fn next_routes(node: &mut Node<Seeded>) -> Arc<Routes> {
    let mut commands = std::iter::from_fn(|| lane_command(node));
    commands.find_map(|command| if let ToLane::Routes(routes) = command { Some(routes) } else { None }).unwrap()
}

fn inner(number: u8) -> IpAddr {
    IpAddr::from([100, 64, 0, number])
}

#[test]
fn fault_g15_a_node_of_a_network_takes_packets_for_its_own_addresses_and_a_native_one_for_all() {
    let mut node = Node::new(key(0), Limits::WIREGUARD, seeded(1));
    let mut own = map(0, 0..3);
    node.set_map(&own);
    let routes = next_routes(&mut node);
    let accepted = |routes: &Routes| (1..=4).map(|number| routes.delivers_to(inner(number), false)).collect::<Vec<_>>();
    assert_eq!(
        accepted(&routes),
        [true, false, false, false],
        "a node accepts no packets for the addresses of its peers"
    );
    own.me.addresses = vec![inner(4)];
    node.set_map(&own);
    assert_eq!(accepted(&next_routes(&mut node)), [false, false, false, true]);

    let mut native = Node::new(key(0), Limits::WIREGUARD, seeded(2));
    native.configure(false, vec![PeerChange::new(public_key(&key(1)))]).unwrap();
    assert_eq!(accepted(&next_routes(&mut native)), [true; 4]);
}

#[test]
fn fault_d17_endpoints_inside_other_overlays_of_the_host_are_left_out() {
    let mut node = Node::new(key(0), Limits::WIREGUARD, seeded(3));
    let map = map(0, 0..3);
    // Each peer has two endpoints: one in 192.0.2.0/24, one in 198.51.100.0/24.
    let inside = |node: &Node<Seeded>| {
        let all = node.peers().flat_map(|peer| peer.candidates.to_vec()).collect::<Vec<_>>();
        let prefix: Prefix = "198.51.100.0/24".parse().unwrap();
        (all.len(), all.iter().filter(|endpoint| prefix.contains(endpoint.ip())).count())
    };
    node.set_map(&map);
    assert_eq!(inside(&node), (4, 2));
    node.set_avoided(vec!["198.51.100.0/24".parse().unwrap()]);
    node.set_map(&map);
    assert_eq!(inside(&node), (2, 0));
    node.set_avoided(Vec::new());
    node.set_map(&map);
    assert_eq!(inside(&node), (4, 2), "all endpoints are used again when the other overlay is gone");
}

#[test]
fn a_peer_that_is_listed_later_is_judged_by_the_hosts_address_families() {
    let mut node = Node::new(key(0), Limits::WIREGUARD, seeded(4));
    let clocks = Clocks { now: Time::ZERO, wall: Duration::ZERO };
    node.handle_look_around(Families { v4: false, v6: true }, clocks);
    node.set_map(&map(0, 0..2));
    let peer = node.peers().next().unwrap().id;
    let ways = node.report(peer, Time::ZERO).unwrap().ways;
    assert!(!ways.is_empty() && ways.iter().all(|way| !way.family), "{ways:?}");
}

#[test]
fn names_change_with_the_map_and_stay_one_snapshot_otherwise() {
    let mut node = Node::new(key(0), Limits::WIREGUARD, seeded(4));
    let mut map = map(0, 0..3);
    let stub = IpAddr::from([100, 64, 0, 0]);
    assert!(node.names().is_none());
    node.set_map(&map);
    let first = next_routes(&mut node);
    let names = |routes: &Routes| std::ptr::from_ref(routes.names_at(stub).unwrap());
    assert!(first.names_at(inner(1)).is_none());
    map.version += 1;
    map.peers.values_mut().for_each(|peer| peer.endpoints.clear());
    node.set_map(&map);
    let second = next_routes(&mut node);
    assert_eq!(names(&first), names(&second), "only endpoints changed");
    map.peers.values_mut().next().unwrap().name.push('x');
    node.set_map(&map);
    assert_ne!(names(&second), names(&next_routes(&mut node)));
}

#[test]
fn fault_g2_subnets_are_used_as_the_user_accepts_them_and_shared_by_their_routers() {
    let mut node = Node::new(key(0), Limits::WIREGUARD, seeded(5));
    let [lan, other, behind]: [Prefix; 3] =
        ["192.168.10.0/24", "10.9.0.0/16", "192.168.20.0/24"].map(|text| text.parse().unwrap());
    let mut map = map(0, 0..4);
    let ids: Vec<_> = map.peers.keys().copied().collect();
    for (id, routes) in ids.iter().zip([vec![lan, other], vec![lan], vec![]]) {
        map.peers.get_mut(id).unwrap().routes = routes;
    }
    let host: IpAddr = "192.168.10.7".parse().unwrap();
    node.set_map(&map);
    assert_eq!(next_routes(&mut node).lookup(host), None, "nothing is accepted before the user says so");
    node.set_subnets(vec![behind], vec![lan]);
    node.set_map(&map);
    let routes = next_routes(&mut node);
    let [first, second, third] = [1, 2, 3].map(|number| routes.lookup(inner(number + 1)).unwrap());
    assert_eq!(routes.lookup(host), Some(first), "the router with the lowest number carries");
    assert_eq!(routes.lookup("10.9.0.1".parse().unwrap()), None);
    assert!(routes.may_send(first, host) && routes.may_send(second, host) && !routes.may_send(third, host));
    let here = |text: &str| routes.delivers_to(text.parse().unwrap(), false);
    assert!(here("192.168.20.7") && here("100.64.0.1") && !here("192.168.10.7"));
    // The router's table of rules is lost, and made again.
    node.set_forwarded(Vec::new());
    assert!(!next_routes(&mut node).delivers_to("192.168.20.7".parse().unwrap(), false));
    node.set_forwarded(vec![behind]);
    assert!(next_routes(&mut node).delivers_to("192.168.20.7".parse().unwrap(), false));
    // The first router ceases to be one.
    map.peers.get_mut(&ids[0]).unwrap().routes.clear();
    node.set_map(&map);
    let routes = next_routes(&mut node);
    assert_eq!(routes.lookup(host), Some(second));
    assert!(!routes.may_send(first, host));
    assert_eq!(node.carriers().collect::<Vec<_>>(), [(lan, second)]);
}

#[test]
fn fault_e17_an_exit_node_carries_the_internet_only_if_the_user_chose_it() {
    let mut node = Node::new(key(0), Limits::WIREGUARD, seeded(6));
    let mut map = map(0, 0..4);
    let ids: Vec<_> = map.peers.keys().copied().collect();
    for id in &ids[..2] {
        map.peers.get_mut(id).unwrap().routes = taut_netmap::exit_routes().to_vec();
    }
    let public: [IpAddr; 2] = ["203.0.113.7", "2001:db8::7"].map(|text| text.parse().unwrap());
    node.set_map(&map);
    let routes = next_routes(&mut node);
    let peers = [1, 2, 3].map(|number| routes.lookup(inner(number + 1)).unwrap());
    let is_off = |routes: &Routes| {
        let sends = |address: IpAddr| peers.iter().any(|peer| routes.may_send(*peer, address));
        public.iter().all(|address| routes.lookup(*address).is_none() && !sends(*address))
    };
    assert!(is_off(&routes) && !routes.lacks_exit(public[0]));
    // The user chooses one.
    node.set_exit(ExitWish::Node(Some(ids[1])), false);
    node.set_map(&map);
    let routes = next_routes(&mut node);
    for address in public {
        assert_eq!(routes.lookup(address), Some(peers[1]));
        assert!(routes.may_send(peers[1], address) && !routes.may_send(peers[0], address));
        assert!(!routes.delivers_to(address, false), "this node is no exit node");
    }
    // It ceases to be one: then nothing goes to another one.
    map.peers.get_mut(&ids[1]).unwrap().routes.clear();
    node.set_map(&map);
    let routes = next_routes(&mut node);
    assert!(is_off(&routes) && routes.lacks_exit(public[0]));
    // This node becomes one, as soon as its rules are made.
    node.set_exit(ExitWish::None, false);
    node.set_map(&map);
    assert!(!next_routes(&mut node).delivers_to(public[0], false));
    node.set_is_exit(true);
    let routes = next_routes(&mut node);
    assert!(routes.delivers_to(public[0], false) && !routes.delivers_to("192.168.1.1".parse().unwrap(), false));
    assert!(is_off(&routes), "its clients send from their own addresses");
}
