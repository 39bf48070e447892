//! Conversion of the node's events to log events: the kind of each, and its values.

use std::net::SocketAddr;

use taut_base::{PeerId, RelayId};
use taut_node::{Clocks, GatherReason, HandshakeFailure, HandshakeRefusal, NodeEvent};
use taut_path::{
    DownCause, HomeChangeReason, HomeRelayEvent, Nat, NatEvent, PathChangeReason, PathEvent, Suspicion, Way,
};
use taut_relay::LostCause;
use taut_tunnel::Role;

use super::changes::listed;
use super::kind::{self, Kind};
use super::{EventSource, Log, Value};

/// Lookup of the names of peers and relays. The node's events contain only ids.
pub(crate) trait Names {
    /// Returns the peer's number in the map and its name.
    fn peer(&self, id: PeerId) -> Option<(u64, String)>;
    /// Returns the relay's name.
    fn relay(&self, id: RelayId) -> Option<String>;
    /// Returns the name of the relay at this address.
    fn relay_at(&self, address: SocketAddr) -> Option<String>;
}

/// Records an event of the node.
pub(crate) fn note_node_event(log: &mut Log, event: &NodeEvent, names: &impl Names, clocks: Clocks) {
    let (kind, party, values) = render(event, names);
    log.record(kind, party, &values, clocks);
}

fn render(event: &NodeEvent, names: &impl Names) -> (&'static Kind, EventSource, Vec<Value>) {
    let peer = |id: PeerId| match names.peer(id) {
        Some((number, name)) => (EventSource::Peer(number), Value::Text(name)),
        // The peer was just removed from the map, so its name is not known any more.
        None => (EventSource::Peer(u64::MAX), Value::None),
    };
    let of_peer = |kind, id, rest: Vec<Value>| {
        let (party, name) = peer(id);
        (kind, party, [vec![name], rest].concat())
    };
    let of_relay = |kind, id: RelayId, rest: Vec<Value>| {
        let name = names.relay(id).map_or(Value::Number(u64::from(id.0)), Value::Text);
        (kind, EventSource::Relay(id.0), [vec![name], rest].concat())
    };
    match *event {
        NodeEvent::HandshakeStarted { peer } => of_peer(&kind::HANDSHAKE_STARTED, peer, vec![]),
        NodeEvent::HandshakeCompleted { peer, way, took } => {
            of_peer(&kind::HANDSHAKE_COMPLETED, peer, vec![through(way, names), Value::ms(took)])
        }
        NodeEvent::HandshakeFailed { peer, reason, tried, again } => {
            let kind = if again { &kind::HANDSHAKE_FAILED_AGAIN } else { &kind::HANDSHAKE_FAILED };
            let reason = match reason {
                HandshakeFailure::NoAnswer => "no-answer",
                HandshakeFailure::NoPath => "no-path",
            };
            of_peer(kind, peer, vec![Value::Word(reason), Value::s(tried)])
        }
        NodeEvent::PeerAnswers { peer } => of_peer(&kind::PEER_ANSWERS, peer, vec![]),
        NodeEvent::Filtered { peer, destination, protocol, port } => {
            let port = port.map_or(Value::None, |port| Value::Number(port.into()));
            of_peer(&kind::PACKET_FILTERED, peer, vec![Value::text(destination), protocol_name(protocol), port])
        }
        NodeEvent::HandshakeRefused { peer, way, reason } => {
            let reason = match reason {
                HandshakeRefusal::OldStamp => "old-stamp",
                HandshakeRefusal::TooMany => "too-many",
            };
            of_peer(&kind::HANDSHAKE_REFUSED, peer, vec![through(way, names), Value::Word(reason)])
        }
        NodeEvent::SessionBegan { peer, role, number } => {
            let role = match role {
                Role::Initiator => "initiator",
                Role::Responder => "responder",
            };
            of_peer(&kind::SESSION_BEGAN, peer, vec![Value::Word(role), Value::Number(number)])
        }
        NodeEvent::SessionExpired { peer } => of_peer(&kind::SESSION_EXPIRED, peer, vec![]),
        NodeEvent::RouteMoved { prefix, from, to } => {
            let name = |id| names.peer(id).map_or_else(|| Value::text(id.0), |(_, name)| Value::Text(name));
            (&kind::SUBNET_MOVED, EventSource::Node, vec![Value::text(prefix), name(from), name(to)])
        }
        NodeEvent::ExitMoved { from, to } => {
            let name = |id| names.peer(id).map_or_else(|| Value::text(id.0), |(_, name)| Value::Text(name));
            let name = |id: Option<_>| id.map_or(Value::None, name);
            (&kind::EXIT_MOVED, EventSource::Node, vec![name(from), name(to)])
        }
        NodeEvent::LanesWanted { peer, lanes, busy } => {
            let values = vec![Value::Number(lanes.into()), Value::Number(u64::from(busy) / 10)];
            of_peer(&kind::LANES_WANTED, peer, values)
        }
        NodeEvent::LanesReturned { peer, reason } => {
            let reason = match reason {
                GatherReason::Idle => "not-needed",
                GatherReason::NoGain => "no-gain",
                GatherReason::PortsClosed => "ports-closed",
                GatherReason::TooFew => "too-few",
            };
            of_peer(&kind::LANES_RETURNED, peer, vec![Value::Word(reason)])
        }
        NodeEvent::SuiteChosen { peer, suite } => of_peer(&kind::SUITE_CHOSEN, peer, vec![Value::Word(suite.name())]),
        NodeEvent::Path { peer, event } => {
            let (kind, values) = path(&event, names);
            of_peer(kind, peer, values)
        }
        NodeEvent::Nat(ref event) => {
            let (kind, values) = nat(event);
            (kind, EventSource::Underlay, values)
        }
        NodeEvent::HomeRelay(ref event) => home_relay(event, names),
        NodeEvent::RelayBound { relay, place, by_bridge } => {
            let via = if by_bridge { "websocket" } else { "udp" };
            // The address of a bridge is this host's own, and says nothing to users.
            let endpoint = if by_bridge { Value::Word("none") } else { Value::text(place) };
            of_relay(&kind::RELAY_BOUND, relay, vec![endpoint, Value::Word(via)])
        }
        NodeEvent::RelayLost { relay, reason } => {
            let reason = match reason {
                LostCause::Silent => "silent",
                LostCause::Left => "ended",
                LostCause::Replaced => "replaced",
                LostCause::Expired => "ticket-expired",
            };
            of_relay(&kind::RELAY_LOST, relay, vec![Value::Word(reason)])
        }
        NodeEvent::RelayReleased { relay } => of_relay(&kind::RELAY_RELEASED, relay, vec![]),
    }
}

/// Returns the protocol's name, or its number if it has no well-known one.
fn protocol_name(protocol: u8) -> Value {
    match protocol {
        1 => Value::Word("icmp"),
        6 => Value::Word("tcp"),
        17 => Value::Word("udp"),
        58 => Value::Word("icmpv6"),
        132 => Value::Word("sctp"),
        other => Value::Number(other.into()),
    }
}

fn path(event: &PathEvent, names: &impl Names) -> (&'static Kind, Vec<Value>) {
    let number = |number: u16| Value::Number(u64::from(number));
    match *event {
        PathEvent::PathChanged { from, to, reason } => {
            let kind = if is_path_news(from, to, reason) { &kind::PATH_CHANGED } else { &kind::PATH_MOVED };
            let from = from.map_or(Value::Word("none"), |from| through(from, names));
            (kind, vec![from, through(to, names), Value::Word(change_reason(reason))])
        }
        PathEvent::CandidateProven { way } => (&kind::PATH_PROVEN, vec![through(way, names)]),
        PathEvent::Suspected { way, reason } => {
            let reason = match reason {
                Suspicion::ProbeLost => "probe-lost",
                Suspicion::NetworkChanged => "network-changed",
                Suspicion::PeerMoved => "peer-moved",
                Suspicion::DataUnacknowledged => "no-receipt",
            };
            (&kind::PATH_SUSPECTED, vec![through(way, names), Value::Word(reason)])
        }
        PathEvent::SuspicionCleared { way } => (&kind::PATH_CLEARED, vec![through(way, names)]),
        PathEvent::CandidateLost { way, reason } => {
            (&kind::PATH_LOST, vec![through(way, names), Value::Word(down_reason(reason))])
        }
        PathEvent::PeerIdle { after } => (&kind::PEER_IDLE, vec![Value::s(after)]),
        PathEvent::SearchOpened { round, ports, sockets } => {
            (&kind::SEARCH_OPENED, vec![Value::Number(u64::from(round)), number(ports), number(sockets)])
        }
        PathEvent::SearchClosed { target, found } => {
            (&kind::SEARCH_CLOSED, vec![Value::text(target), Value::Word(if found { "yes" } else { "no" })])
        }
        PathEvent::SearchRequested { from, ports } => (&kind::SEARCH_REQUESTED, vec![Value::text(from), number(ports)]),
        PathEvent::PacketLimitChanged { way, longest } => {
            (&kind::PACKET_LIMIT_CHANGED, vec![through(way, names), longest.map_or(Value::Word("none"), number)])
        }
        PathEvent::PeerNatChanged { from, to } => {
            (&kind::PEER_NAT_CHANGED, vec![Value::Word(nat_name(from)), Value::Word(nat_name(to))])
        }
    }
}

/// Returns true if users want to read of a change of path at the usual level: it is another kind of path, or the former one failed.
fn is_path_news(from: Option<Way>, to: Way, reason: PathChangeReason) -> bool {
    use PathChangeReason::{DirectProven, Down, First, Idle, LowerCost, NoLongerProven, RelaySilent, Withdrawn};
    let Some(from) = from else { return false };
    match reason {
        Down(_) | RelaySilent | Withdrawn => true,
        First | DirectProven | LowerCost | NoLongerProven | Idle => from.is_relayed() != to.is_relayed(),
    }
}

fn change_reason(reason: PathChangeReason) -> &'static str {
    match reason {
        PathChangeReason::First => "first",
        PathChangeReason::DirectProven => "direct-proven",
        PathChangeReason::LowerCost => "lower-cost",
        PathChangeReason::Down(cause) => down_reason(cause),
        PathChangeReason::RelaySilent => "relay-silent",
        PathChangeReason::Withdrawn => "withdrawn",
        PathChangeReason::NoLongerProven => "no-longer-proven",
        PathChangeReason::Idle => "idle",
    }
}

fn down_reason(cause: DownCause) -> &'static str {
    match cause {
        DownCause::Silent => "no-answer",
        DownCause::Lossy => "lossy",
        DownCause::NoData => "no-data",
    }
}

fn nat(event: &NatEvent) -> (&'static Kind, Vec<Value>) {
    match event {
        NatEvent::NatChanged { from, to, .. } => {
            let kind = match (from, to) {
                (Nat::Unknown, _) => &kind::NAT_KNOWN,
                (_, Nat::Unknown) => &kind::NAT_FORGOTTEN,
                _ => &kind::NAT_CHANGED,
            };
            (kind, vec![Value::Word(nat_name(*from)), Value::Word(nat_name(*to))])
        }
        NatEvent::EndpointsChanged { from, to } => (&kind::OUTER_ENDPOINTS_CHANGED, vec![listed(from), listed(to)]),
    }
}

fn nat_name(nat: Nat) -> &'static str {
    match nat {
        Nat::Unknown => "unknown",
        Nat::Open => "open",
        Nat::Cone => "cone",
        Nat::Symmetric => "symmetric",
        Nat::Sequential => "sequential",
        Nat::Blocked => "blocked",
    }
}

fn home_relay(event: &HomeRelayEvent, names: &impl Names) -> (&'static Kind, EventSource, Vec<Value>) {
    let name = |id: &RelayId| names.relay(*id).unwrap_or_else(|| id.to_string());
    let all = |ids: &[RelayId]| listed(&ids.iter().map(name).collect::<Vec<_>>());
    match event {
        HomeRelayEvent::Changed { from, to, reason } => {
            let reason = match reason {
                HomeChangeReason::MapChanged => "map-changed",
                HomeChangeReason::Measured => "measured",
                HomeChangeReason::Lost => "lost",
            };
            (&kind::HOME_RELAYS_CHANGED, EventSource::Underlay, vec![all(from), all(to), Value::Word(reason)])
        }
        HomeRelayEvent::Lost(id) => (&kind::RELAY_SILENT, EventSource::Relay(id.0), vec![Value::Text(name(id))]),
    }
}

/// Returns a path as text: an endpoint, or `relay:` and the relay's name.
fn through(way: Way, names: &impl Names) -> Value {
    match way {
        Way::Direct(endpoint) => Value::text(endpoint),
        Way::Relayed { relay, .. } => {
            Value::Text(["relay:", &names.relay_at(relay).unwrap_or_else(|| relay.to_string())].concat())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_level_tells_how_a_path_gets_worse() {
        let endpoint = |number: u8| SocketAddr::from(([203, 0, 113, number], 8288));
        let direct = |number| Way::Direct(endpoint(number));
        let relayed = |number: u8| Way::Relayed { relay: endpoint(number), id: number.into() };
        let is_news = |from, to, reason| is_path_news(Some(from), to, reason);
        assert!(is_news(direct(1), relayed(2), PathChangeReason::Idle), "the latest line would go on saying direct");
        assert!(is_news(relayed(2), relayed(3), PathChangeReason::RelaySilent), "a relay died under the traffic");
        assert!(is_news(direct(1), direct(4), PathChangeReason::Down(DownCause::Silent)));
        assert!(!is_news(relayed(2), relayed(3), PathChangeReason::LowerCost));
        assert!(!is_path_news(None, relayed(2), PathChangeReason::First));
    }
}
