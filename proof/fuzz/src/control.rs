//! Messages between node and coordinator, and the network map.

use std::collections::BTreeSet;

use taut_base::{Entropy, MAX_PEERS, PrivateKey};
use taut_netmap::{
    CoordinatorToRelay, Delta, NetworkMap, RelayToCoordinator, ToCoordinator, ToNode, check_name, is_reserved,
    resolve_relay_endpoints, resolve_relay_urls,
};
use taut_node::Node;
use taut_testkit::Seeded;
use taut_tunnel::Limits;

use crate::input::Input;

/// A message from the coordinator. The node reads it in two steps to save memory; reading it in one step must give the same message.
pub(crate) fn to_node(data: &[u8]) {
    let Some(known) = taut_control::fuzzing::message(data) else {
        return assert!(
            serde_json::from_slice::<ToNode>(data).is_err(),
            "a message is valid in one step but not in two"
        );
    };
    let at_once = serde_json::from_slice::<ToNode>(data).ok();
    assert!(at_once.is_none() || at_once == known, "the two ways of reading differ: {known:?}, {at_once:?}");
    if let Some(message) = known {
        let again = serde_json::to_vec(&message).ok().and_then(|json| serde_json::from_slice(&json).ok());
        assert_eq!(again, Some(message));
    }
}

/// A message from a node.
pub(crate) fn to_coordinator(data: &[u8]) {
    let Ok(message) = serde_json::from_slice::<ToCoordinator>(data) else { return };
    if message != ToCoordinator::Unknown {
        let again = serde_json::to_vec(&message).ok().and_then(|json| serde_json::from_slice(&json).ok());
        assert_eq!(again, Some(message));
    }
}

/// A message between a relay and a coordinator, in either direction.
pub(crate) fn relay_channel(data: &[u8]) {
    if let Ok(message) = serde_json::from_slice::<RelayToCoordinator>(data)
        && message != RelayToCoordinator::Unknown
    {
        let again = serde_json::to_vec(&message).ok().and_then(|json| serde_json::from_slice(&json).ok());
        assert_eq!(again.as_ref(), Some(&message));
        if let RelayToCoordinator::Load(load) = message {
            assert!(load.thousandths() <= 1_000);
        }
    }
    if let Ok(message) = serde_json::from_slice::<CoordinatorToRelay>(data)
        && message != CoordinatorToRelay::Unknown
    {
        let again = serde_json::to_vec(&message).ok().and_then(|json| serde_json::from_slice(&json).ok());
        assert_eq!(again, Some(message));
    }
}

/// A map and the deltas after it, as pieces. An accepted map keeps its invariants, and a node accepts it.
pub(crate) fn map(data: &[u8]) {
    let mut input = Input::new(data);
    let Ok(mut map) = serde_json::from_slice::<NetworkMap>(input.piece()) else { return };
    let json = serde_json::to_vec(&map).unwrap_or_default();
    assert!(serde_json::from_slice::<NetworkMap>(&json).is_ok_and(|again| again == map));
    if let Err(refusal) = map.check() {
        return assert!(!refusal.to_string().is_empty());
    }
    let mut node = Node::new(PrivateKey::from_bytes([1; 32]), Limits::WIREGUARD, Seeded::new(1));
    take(&mut node, &map);
    while !input.is_empty() {
        let Ok(delta) = serde_json::from_slice::<Delta>(input.piece()) else { continue };
        let Ok(next) = map.apply(&delta) else { continue };
        assert!(next.version == delta.to && next.version >= map.version);
        assert!(
            delta
                .removes
                .iter()
                .all(|id| { !next.peers.contains_key(id) || delta.upserts.iter().any(|peer| peer.id == *id) })
        );
        map = next;
        take(&mut node, &map);
    }
}

/// Checks the invariants of a map in another way than `NetworkMap::check`, and that a node accepts the map.
fn take(node: &mut Node<impl Entropy>, map: &NetworkMap) {
    assert_eq!(map.check(), Ok(()));
    let (mut keys, mut ids, mut addresses) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let me = (map.me.id, map.me.id, map.me.key, &map.me.name, &map.me.addresses);
    let peers = map.peers.iter().map(|(id, peer)| (*id, peer.id, peer.key, &peer.name, &peer.addresses));
    for (place, id, key, name, own) in peers.chain([me]) {
        assert!(place == id && ids.insert(id) && keys.insert(key) && check_name(name).is_ok() && !own.is_empty());
        for address in own {
            assert!(map.network.ipv4.contains(*address) || map.network.ipv6.contains(*address));
            assert!(addresses.insert(*address), "{address} belongs to two nodes");
        }
    }
    let mut shown = map.clone();
    shown.replace_reserved_names();
    let names = shown.peers.values().map(|peer| &peer.name).chain([&shown.me.name]);
    assert!(shown.check().is_ok() && !names.into_iter().any(|name| is_reserved(name)));
    assert!(map.peers.values().all(|peer| peer.relays.len() <= 2));
    let (mut relays, mut places) = (BTreeSet::new(), BTreeSet::new());
    assert!(
        map.relays
            .iter()
            .all(|relay| relays.insert(relay.id) && places.insert(relay.key) && relay.endpoints.len() <= 8)
    );
    assert!(
        map.relays
            .iter()
            .flat_map(|relay| &relay.endpoints)
            .all(|place| place.port() != 0 && !place.ip().is_loopback())
    );
    let mut settled = map.relays.clone();
    resolve_relay_endpoints(&mut settled, &[[192, 0, 2, 1].into()], &[map.network.ipv4, map.network.ipv6]);
    assert!(settled.iter().flat_map(|relay| &relay.endpoints).all(|place| !place.ip().is_unspecified()));
    resolve_relay_urls(&mut settled, Some("https://a"));
    assert!(settled.iter().all(|relay| relay.check(&[map.network.ipv4, map.network.ipv6]).is_ok()));
    assert!(map.peers.len() <= MAX_PEERS && map.network.ipv4.length() >= 8 && map.network.ipv6.length() >= 48);
    node.set_map(map);
    assert!(node.peers().count() <= map.peers.len());
    while node.poll_output().is_some() {}
}
