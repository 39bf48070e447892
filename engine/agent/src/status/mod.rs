//! The status for users.

mod exit;
mod routes;
pub(crate) mod why;

use std::net::SocketAddr;
use std::time::Duration;

use taut_base::{NodeId, RelayId, SortedMap, Time};
use taut_lane::{DropReason, LaneShared};
use taut_netmap::NetworkMap;
use taut_node::{HandshakeCounts, LanesLimit, PeerView, RelayView};
use taut_path::{Nat, NatReportView, Way};
use taut_relay::{BindingState, LostCause};
use taut_wire::control::Suite;

use crate::api::{
    Bytes, CongestionMarks, Filtering, Handshakes, LanesStatus, MappingBehaviour, NamesStatus, NatStatus, PathChanges,
    PathStatus, PeerStatus, RelayState, RelayStatus, RelayVia, SelfStatus, SessionStatus, Traffic, WebSocketStatus,
};
use crate::overlay::Overlay;

pub(crate) use exit::{exit, exit_warning};
pub(crate) use routes::routes;

/// Returns the status of this node.
pub(crate) fn myself(map: &NetworkMap, overlay: Option<&Overlay>, names: NamesStatus) -> SelfStatus {
    SelfStatus {
        name: map.me.name.clone(),
        id: map.me.id.0,
        addresses: map.me.addresses.clone(),
        node_key: map.me.key,
        port: overlay.map_or(0, |overlay| overlay.port),
        ports_taken: overlay.map_or_else(Vec::new, |overlay| overlay.ports_taken.clone()),
        endpoints: overlay.map_or_else(Vec::new, |overlay| overlay.endpoints.clone()),
        tun: overlay.map(Overlay::tun),
        udp: overlay.map(|overlay| overlay.udp.clone()),
        lanes: overlay.map(lanes),
        names: Some(names),
    }
}

fn lanes(overlay: &Overlay) -> LanesStatus {
    let lanes = overlay.lanes();
    let ports: Vec<u16> = std::iter::once(overlay.port).chain(overlay.ports.iter().copied()).collect();
    // One lane needs no steering and counts as steered by the kernel.
    let by_kernel = ports.len() < 2 || lanes.is_steered_by_kernel();
    LanesStatus {
        ports,
        auto: overlay.node().most_lanes().is_some(),
        most: overlay.node().most_lanes().unwrap_or(overlay.ports().len() as u8),
        problem: overlay.lanes_problem().map(ToString::to_string),
        steering: String::from(if by_kernel { "kernel" } else { "first-lane" }),
        handed_over: lanes.all_shared().map(LaneShared::handed_off).sum(),
        strays: lanes.all_shared().map(LaneShared::strays).sum(),
    }
}

/// Returns all peers by name, from the overlay, or from the map while the overlay is down.
pub(crate) fn peers(
    map: &NetworkMap,
    overlay: Option<&Overlay>,
    presence: Option<&SortedMap<NodeId, bool>>,
    now: Time,
) -> Vec<PeerStatus> {
    let online = |id: NodeId| presence.map(|presence| presence.get(&id).copied().unwrap_or(false));
    let mut peers: Vec<PeerStatus> = match overlay {
        Some(overlay) => {
            let shown = |peer: PeerView<'_>| connected(&peer, overlay, online(peer.node), now);
            overlay.node().peers().map(shown).collect()
        }
        None => map.peers.values().map(|peer| listed(peer, online(peer.id))).collect(),
    };
    peers.sort_by(|one, other| one.name.cmp(&other.name));
    peers
}

/// Returns the number of dropped packets by reason. Reasons without drops are left out.
pub(crate) fn drops(overlay: Option<&mut Overlay>) -> SortedMap<String, u64> {
    let counts = overlay.map(drop_counts).unwrap_or_default();
    counts.into_iter().map(|(name, count)| (String::from(name), count)).collect()
}

/// Packets that were dropped, by reason; reasons that never happened are left out.
pub(crate) fn drop_counts(overlay: &mut Overlay) -> SortedMap<&'static str, u64> {
    let by_kernel = overlay.dropped_by_kernel();
    let by_bridges = overlay.bridges().dropped();
    let by_lanes = overlay.lanes().all_shared().flat_map(|shared| shared.drops.iter());
    let mut drops = SortedMap::new();
    for (name, count) in by_lanes.chain(by_kernel).chain(by_bridges) {
        if count > 0 {
            *drops.entry(name).or_default() += count;
        }
    }
    drops
}

/// Returns the counters of the handshakes that peers started.
pub(crate) fn handshakes(overlay: Option<&Overlay>) -> Handshakes {
    let Some(overlay) = overlay else { return Handshakes::default() };
    let HandshakeCounts { computed, answered, repeated, over_limit } = overlay.node().handshake_counts();
    // Every initiation that is dropped for this reason is answered with a cookie.
    let cookies = overlay.lanes().all_shared().map(|shared| shared.drops.count(DropReason::CookieAsked)).sum();
    Handshakes { computed, answered, repeated, over_limit, cookies }
}

/// Returns the path of packets to a peer. Without a session there is no path, even if one was proven before.
fn path(peer: &PeerView<'_>, overlay: &Overlay, now: Time) -> PathStatus {
    if peer.session.is_none() {
        return PathStatus::default();
    }
    let view = peer.path.as_ref();
    match view.and_then(|view| view.way).or(peer.proven.map(Way::Direct)) {
        None => PathStatus::default(),
        Some(way) => PathStatus {
            since_s: view.and_then(|view| view.since).map(|since| seconds(now.since(since))),
            loss: view.and_then(|view| view.loss).map(share),
            silent: view.is_some_and(|view| view.silent),
            mtu: view.and_then(|view| view.limit),
            ..match way {
                Way::Direct(endpoint) => PathStatus::direct(Some(endpoint)),
                Way::Relayed { relay, .. } => PathStatus::relayed(relay_name(overlay, relay)),
            }
        },
    }
}

/// Returns the name of the relay at this address.
fn relay_name(overlay: &Overlay, address: SocketAddr) -> String {
    let named =
        overlay.node().relays().find(|relay| relay.place == Some(address) || relay.endpoints.contains(&address));
    named.map_or_else(|| address.to_string(), |relay| String::from(relay.name))
}

/// Returns the network's relays, from the overlay, or from the map while the overlay is down.
pub(crate) fn relays(map: &NetworkMap, overlay: Option<&Overlay>) -> Vec<RelayStatus> {
    let known = |id| overlay.and_then(|overlay| overlay.node().relays().find(|relay| relay.id == id));
    let distances = overlay.map_or_else(Vec::new, |overlay| overlay.node().nat_report().relays);
    let far = |id| distances.iter().find(|one| one.relay == id).map(|one| one.round_trip);
    let shown = |relay: &taut_netmap::Relay| {
        let view = known(relay.id);
        let standing = view.as_ref().and_then(|view| view.standing);
        RelayStatus {
            name: relay.name.clone(),
            endpoints: relay.endpoints.clone(),
            state: match standing {
                None => RelayState::Idle,
                Some(BindingState::Binding) => RelayState::Binding,
                Some(BindingState::Ready | BindingState::Suspected) => RelayState::Bound,
                Some(BindingState::Lost) => RelayState::Unreachable,
            },
            home: view.as_ref().is_some_and(|view| view.home.is_some()),
            latency_ms: view
                .as_ref()
                .and_then(|view| view.round_trip)
                .or(far(relay.id))
                .map(|time| seconds(time) * 1e3),
            via: view.as_ref().and_then(via),
            websocket: overlay.and_then(|overlay| websocket(overlay, relay.id)),
            problem: match standing {
                Some(BindingState::Suspected) => Some(String::from("does not answer at the moment")),
                Some(BindingState::Lost) => Some(String::from(lost(view.as_ref().and_then(|view| view.lost)))),
                None | Some(BindingState::Binding | BindingState::Ready) => None,
            },
        }
    };
    map.relays.iter().map(shown).collect()
}

/// Explains why a relay does not serve this node.
fn lost(cause: Option<LostCause>) -> &'static str {
    match cause {
        None | Some(LostCause::Silent) => "does not answer",
        Some(LostCause::Left) => "said that it stops; it is asked again",
        Some(LostCause::Replaced) => {
            "serves another program that has this node's keys: a copy of its state directory runs on another host"
        }
        Some(LostCause::Expired) => {
            "the node's ticket has expired; the coordinator issues a new one when it is connected"
        }
    }
}

/// Returns the transport to a relay, if the relay is reached.
fn via(relay: &RelayView<'_>) -> Option<RelayVia> {
    relay.place.map(|_| if relay.is_bridged { RelayVia::Websocket } else { RelayVia::Udp })
}

fn websocket(overlay: &Overlay, relay: RelayId) -> Option<WebSocketStatus> {
    let (url, report) = overlay.bridges().report(relay)?;
    let local = overlay.bridges().local_address(relay);
    Some(WebSocketStatus { url: String::from(url), open: report.is_open, local, problem: report.problem })
}

/// Returns the NAT in front of this node, as relays see it. If an answer from a relay's other port came in, the filter is at most address-dependent. `connected` is true
/// if the coordinator is connected: without any connection, missing UDP answers do not prove that UDP is blocked.
pub(crate) fn nat(view: &NatReportView, connected: bool) -> NatStatus {
    match view.nat {
        Nat::Blocked if connected => return NatStatus::blocked(),
        _ if view.unanswered => return NatStatus::unanswered(),
        _ => {}
    }
    let mapping = match view.mapping {
        taut_path::NatMapping::Unknown => MappingBehaviour::Unknown,
        taut_path::NatMapping::None => MappingBehaviour::NotTranslated,
        taut_path::NatMapping::EndpointIndependent => MappingBehaviour::EndpointIndependent,
        taut_path::NatMapping::AddressDependent => MappingBehaviour::AddressDependent,
        taut_path::NatMapping::AddressAndPortDependent => MappingBehaviour::AddressAndPortDependent,
    };
    let filtering = match view.filtering {
        taut_path::NatFiltering::Unknown => Filtering::Unknown,
        taut_path::NatFiltering::AtMostAddressDependent => Filtering::NotByPort,
        taut_path::NatFiltering::AddressAndPortDependent => Filtering::AddressAndPortDependent,
    };
    NatStatus::new(mapping, filtering, None, view.seen.clone())
}

/// Returns a time in seconds, as in the API.
pub(crate) fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

/// Returns a percentage as a share of 1.
pub(crate) fn share(per_cent: u32) -> f64 {
    f64::from(per_cent) / 100.0
}

fn connected(peer: &PeerView<'_>, overlay: &Overlay, online: Option<bool>, now: Time) -> PeerStatus {
    let ((received, sent), (by_relay, to_relay)) =
        (overlay.lanes().traffic_of(peer.id), overlay.lanes().relayed_of(peer.id));
    let relayed = Bytes { received: by_relay, sent: to_relay };
    let direct = Bytes { received: received.saturating_sub(by_relay), sent: sent.saturating_sub(to_relay) };
    let age = peer.session.map(|since| now.since(since).as_secs_f64());
    PeerStatus {
        name: String::from(peer.name),
        id: peer.node.0,
        addresses: peer.addresses.to_vec(),
        node_key: peer.key,
        online,
        path: path(peer, overlay, now),
        session: age.map(|age_s| SessionStatus {
            age_s,
            suite: String::from(peer.suite.map_or("", Suite::name)),
            lanes_in_use: peer.lanes.0,
            lanes: peer.lanes.1,
            lanes_limit: overlay.node().lanes_limit(peer.id).and_then(lanes_limit).map(String::from),
            established: peer.established,
        }),
        rx_bytes: received,
        tx_bytes: sent,
        traffic: Traffic { direct, relayed },
        last_handshake_s: age,
        round_trip_ms: peer.round_trip.map(|time| time.as_secs_f64() * 1e3),
        candidates: peer.candidates.to_vec(),
        changes: changes(peer, overlay),
        congestion_marks: congestion_marks(peer, overlay),
    }
}

/// Returns the word for what keeps a peer from having more lanes.
fn lanes_limit(limit: LanesLimit) -> Option<&'static str> {
    Some(match limit {
        LanesLimit::AllOpen => return None,
        LanesLimit::Native => "native",
        LanesLimit::Relayed => "relayed",
        LanesLimit::PortsClosed => "ports-closed",
        LanesLimit::Opening => "opening",
        LanesLimit::Fixed => "fixed",
        LanesLimit::OneCore => "one-core",
        LanesLimit::NoGain => "no-gain",
        LanesLimit::NotNeeded => "not-needed",
    })
}

fn congestion_marks(peer: &PeerView<'_>, overlay: &Overlay) -> CongestionMarks {
    let (received, sent) = overlay.lanes().marked_of(peer.id);
    CongestionMarks { received, sent }
}

fn changes(peer: &PeerView<'_>, overlay: &Overlay) -> PathChanges {
    let (held_bytes, given_up) = overlay.lanes().held_of(peer.id);
    PathChanges { held_bytes, given_up, ignored: peer.lane_changes_ignored }
}

fn listed(peer: &taut_netmap::Peer, online: Option<bool>) -> PeerStatus {
    PeerStatus {
        name: peer.name.clone(),
        id: peer.id.0,
        addresses: peer.addresses.clone(),
        node_key: peer.key,
        online,
        path: PathStatus::default(),
        session: None,
        rx_bytes: 0,
        tx_bytes: 0,
        traffic: Traffic::default(),
        last_handshake_s: None,
        round_trip_ms: None,
        candidates: peer.endpoints.clone(),
        changes: PathChanges::default(),
        congestion_marks: CongestionMarks::default(),
    }
}
