//! State changes as data: what `taut log` tells of paths, the NAT and relays. Each carries its reason; no text is made here.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::VecDeque;
use std::vec::Vec;

use taut_base::RelayId;

use crate::nat::Nat;
use crate::reasons::{DownCause, Suspicion};
use crate::way::Way;

/// Events that wait to be polled, per machine. One input makes fewer; the oldest is dropped if a caller does not poll.
const MAX_EVENTS: usize = 32;

/// A state change of the paths to one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathEvent {
    /// Data takes another path.
    PathChanged {
        /// The path before; `None` if there was none.
        from: Option<Way>,
        /// The path from now on.
        to: Way,
        /// The reason for the change.
        reason: PathChangeReason,
    },
    /// A candidate was proven: it may carry data.
    CandidateProven {
        /// The candidate.
        way: Way,
    },
    /// A proven candidate is suspected, and quick probes judge it.
    Suspected {
        /// The candidate.
        way: Way,
        /// The reason for the suspicion.
        reason: Suspicion,
    },
    /// A suspected candidate answered: the suspicion is over.
    SuspicionCleared {
        /// The candidate.
        way: Way,
    },
    /// A proven candidate does not lead to the peer any more.
    CandidateLost {
        /// The candidate.
        way: Way,
        /// The reason why it was given up.
        reason: DownCause,
    },
    /// No data flowed for a while: probing ends, and all proofs are forgotten.
    PeerIdle {
        /// Time without data after which a peer is idle.
        after: Duration,
    },
    /// A round of port search began on this side.
    SearchOpened {
        /// The number of the round since the last news, from 1.
        round: u8,
        /// Ports that the peer is asked to probe.
        ports: u16,
        /// Sockets that are opened for it; 0 if only the first lane's socket is used.
        sockets: u16,
    },
    /// The sockets of a port search are closed.
    SearchClosed {
        /// The peer's endpoint that they were opened for.
        target: SocketAddr,
        /// True if the peer was reached through one of them.
        found: bool,
    },
    /// The peer asked this side to guess ports for its port search.
    SearchRequested {
        /// The peer's outer address and the first port to guess.
        from: SocketAddr,
        /// Ports to guess.
        ports: u16,
    },
    /// A search for the packet limit ended with another result than the last one.
    PacketLimitChanged {
        /// The candidate that was searched.
        way: Way,
        /// Bytes of the longest packet that passes; `None` if no sized probe was answered.
        longest: Option<u16>,
    },
    /// The peer reports another kind of NAT in front of it.
    PeerNatChanged {
        /// The kind that it reported before.
        from: Nat,
        /// The kind that it reports now.
        to: Nat,
    },
}

/// The reason for a change of path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathChangeReason {
    /// There was no path before.
    First,
    /// A direct path was proven and replaces a relayed one.
    DirectProven,
    /// Another path of the same kind has clearly less latency or loss.
    LowerCost,
    /// The former path is down.
    Down(DownCause),
    /// Nothing comes back through the former relay.
    RelaySilent,
    /// The former path is no candidate any more: its relay lost the peer, or the network's prefixes contain the endpoint.
    Withdrawn,
    /// The former path lost its proof without failing: this host has no address of that family any more, or the peer was idle.
    NoLongerProven,
    /// The peer is idle: the next packet goes through a relay first.
    Idle,
}

/// A state change of what relays see of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NatEvent {
    /// The kind of NAT in front of this node changed.
    NatChanged {
        /// The kind before.
        from: Nat,
        /// The kind now.
        to: Nat,
        /// The reason for the new verdict.
        reason: NatChangeReason,
    },
    /// Relays see this node at other endpoints than before.
    EndpointsChanged {
        /// The endpoints before.
        from: Vec<SocketAddr>,
        /// The endpoints now.
        to: Vec<SocketAddr>,
    },
}

/// The reason for another kind of NAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatChangeReason {
    /// A round of STUN requests to the relays ended.
    RoundEnded,
    /// A datagram of a peer or a relay came by UDP, which counted as blocked.
    DatagramHeard,
}

/// A state change of the choice of home relays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HomeRelayEvent {
    /// Other relays are the home relays now.
    Changed {
        /// The home relays before, best first.
        from: Vec<RelayId>,
        /// The home relays now, best first.
        to: Vec<RelayId>,
        /// The reason for the change.
        reason: HomeChangeReason,
    },
    /// A relay does not answer any more.
    Lost(RelayId),
}

/// The reason for other home relays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomeChangeReason {
    /// The map lists other relays.
    MapChanged,
    /// A round-trip time was measured: a relay is clearly nearer, or is back.
    Measured,
    /// A home relay was lost.
    Lost,
}

/// Events in the order in which they happened.
#[derive(Clone, Debug)]
pub(crate) struct EventQueue<T>(VecDeque<T>);

impl<T> Default for EventQueue<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> EventQueue<T> {
    pub(crate) fn push(&mut self, event: T) {
        if self.0.len() == MAX_EVENTS {
            self.0.pop_front();
        }
        self.0.push_back(event);
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        self.0.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_is_not_polled_keeps_the_latest_events() {
        let mut events = EventQueue::default();
        (0..2 * MAX_EVENTS).for_each(|number| events.push(number));
        assert_eq!(events.pop(), Some(MAX_EVENTS));
        assert_eq!(std::iter::from_fn(|| events.pop()).count(), MAX_EVENTS - 1);
    }
}
