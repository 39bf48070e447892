//! What a user sees.

use std::collections::BTreeMap;

use taut_base::{NodeId, Time};
use taut_lane::{Drop, Shared};
use taut_netmap::NetworkMap;
use taut_node::{HandshakeCounts, PeerView};
use taut_wire::control::Suite;

use crate::api::{Handshakes, LanesStatus, PathKind, PathStatus, PeerStatus, SelfStatus, SessionStatus};
use crate::overlay::Overlay;

/// This node, as its map and its overlay say.
pub(crate) fn myself(map: &NetworkMap, overlay: Option<&Overlay>) -> SelfStatus {
    SelfStatus {
        name: map.me.name.clone(),
        id: map.me.id.0,
        addresses: map.me.addresses.clone(),
        node_key: map.me.key,
        port: overlay.map_or(0, |overlay| overlay.port),
        endpoints: overlay.map_or_else(Vec::new, |overlay| overlay.endpoints.clone()),
        tun: overlay.map(|overlay| overlay.tun.clone()),
        udp: overlay.map(|overlay| overlay.udp.clone()),
        lanes: overlay.map(lanes),
    }
}

fn lanes(overlay: &Overlay) -> LanesStatus {
    let link = overlay.link();
    let ports: Vec<u16> = std::iter::once(overlay.port).chain(overlay.ports.iter().copied()).collect();
    // With one lane there is nothing to steer.
    let by_kernel = ports.len() < 2 || link.is_steered_by_kernel();
    LanesStatus {
        ports,
        steering: String::from(if by_kernel { "kernel" } else { "first-lane" }),
        handed_over: link.all_shared().map(Shared::handed_over).sum(),
        strays: link.all_shared().map(Shared::strays).sum(),
    }
}

/// All peers, by name: as the overlay knows them, or as the map does while it is down.
pub(crate) fn peers(
    map: &NetworkMap,
    overlay: Option<&Overlay>,
    presence: Option<&BTreeMap<NodeId, bool>>,
    now: Time,
) -> Vec<PeerStatus> {
    let online = |id: NodeId| presence.map(|presence| presence.get(&id).copied().unwrap_or(false));
    let mut peers: Vec<PeerStatus> = match overlay {
        Some(overlay) => {
            let link = overlay.link();
            let shown = |peer: PeerView<'_>| connected(&peer, link.traffic_of(peer.id), online(peer.node), now);
            overlay.node().peers().map(shown).collect()
        }
        None => map.peers.values().map(|peer| listed(peer, online(peer.id))).collect(),
    };
    peers.sort_by(|one, other| one.name.cmp(&other.name));
    peers
}

/// Dropped packets by reason, as far as there are any.
pub(crate) fn drops(overlay: Option<&mut Overlay>) -> BTreeMap<String, u64> {
    let Some(overlay) = overlay else { return BTreeMap::new() };
    let by_kernel = overlay.dropped_by_kernel();
    let by_lanes = overlay.link().all_shared().flat_map(|shared| shared.drops.iter());
    let mut drops = BTreeMap::new();
    for (name, count) in by_lanes.chain(by_kernel) {
        if count > 0 {
            *drops.entry(String::from(name)).or_default() += count;
        }
    }
    drops
}

/// What became of the handshakes that others began.
pub(crate) fn handshakes(overlay: Option<&Overlay>) -> Handshakes {
    let Some(overlay) = overlay else { return Handshakes::default() };
    let HandshakeCounts { computed, answered, repeated, over_limit } = overlay.node().handshake_counts();
    // Who is dropped for this reason is told a cookie.
    let cookies = overlay.link().all_shared().map(|shared| shared.drops.count(Drop::CookieAsked)).sum();
    Handshakes { computed, answered, repeated, over_limit, cookies }
}

fn connected(peer: &PeerView<'_>, (received, sent): (u64, u64), online: Option<bool>, now: Time) -> PeerStatus {
    let kind = if peer.session.is_some() && peer.proven.is_some() { PathKind::Direct } else { PathKind::None };
    let age = peer.session.map(|since| now.since(since).as_secs_f64());
    PeerStatus {
        name: String::from(peer.name),
        id: peer.node.0,
        addresses: peer.addresses.to_vec(),
        node_key: peer.key,
        online,
        path: PathStatus { kind, endpoint: peer.proven.filter(|_| kind == PathKind::Direct) },
        session: age.map(|age_s| SessionStatus {
            age_s,
            suite: String::from(peer.suite.map_or("", Suite::name)),
            lanes_in_use: peer.lanes.0,
            lanes: peer.lanes.1,
            established: peer.established,
        }),
        rx_bytes: received,
        tx_bytes: sent,
        last_handshake_s: age,
        round_trip_ms: peer.round_trip.map(|time| time.as_secs_f64() * 1e3),
        candidates: peer.candidates.to_vec(),
    }
}

fn listed(peer: &taut_netmap::Peer, online: Option<bool>) -> PeerStatus {
    PeerStatus {
        name: peer.name.clone(),
        id: peer.id.0,
        addresses: peer.addresses.clone(),
        node_key: peer.key,
        online,
        path: PathStatus { kind: PathKind::None, endpoint: None },
        session: None,
        rx_bytes: 0,
        tx_bytes: 0,
        last_handshake_s: None,
        round_trip_ms: None,
        candidates: peer.endpoints.clone(),
    }
}
