//! Everything that a node wants done: one queue for all of it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use taut_base::{LaneId, PeerId, Placement, RelayId};

use crate::contract::{Datagram, ToLane};
use crate::event::NodeEvent;
use crate::relays::BridgeRequest;

/// What the agent does for the node.
///
/// # Order
/// The agent carries outputs out in the order in which [`Node::poll_output`](crate::Node::poll_output) returns them, whichever lane they are for.
/// The rules of the protocol depend on this order:
/// - A session is in every lane before the response to its initiation leaves any lane (protocol.md 1.8).
/// - The lanes know a relay's address before a frame or a STUN request goes there, because they drop what comes from other addresses.
/// - A path is set before the control messages that are to take it.
///
/// The other outputs concern the host and the coordinator. Their order among the commands to lanes does not matter.
pub enum Output {
    /// A command to one of our lanes.
    Lane(LaneId, ToLane),
    /// The time, since the Unix epoch, that no stamp of this run will exceed until the next such output. It is kept on the disk for the next run
    /// (protocol.md 1.9). It comes ahead of its use: no handshake waits for the disk.
    StampCeiling(Duration),
    /// The node's endpoints outside its NAT, those that gateways mapped first. The coordinator is told of them, beside the addresses of the interfaces.
    Endpoints(Vec<SocketAddr>),
    /// A STUN request for a socket that is used for nothing else. It tests which datagrams the NAT lets in to such a socket. The socket has to stay open
    /// for two seconds; what it receives goes to [`Node::handle_nat_test`](crate::Node::handle_nat_test).
    NatTest {
        /// The address of the relay's STUN server.
        destination: SocketAddr,
        /// The request.
        request: Datagram,
    },
    /// The relays that the node is bound to, best first. The coordinator is told of them: peers look for the node there.
    HomeRelays(Vec<RelayId>),
    /// All bridges that have to exist from now on. A bridge shows a WebSocket to a relay as a UDP address of our own host, for relays that UDP does not
    /// reach. The agent reports their state by [`Node::bridge_opened`](crate::Node::bridge_opened) and
    /// [`Node::bridge_closed`](crate::Node::bridge_closed).
    Bridges(Vec<BridgeRequest>),
    /// The relay does not answer through its open bridge: the bridge needs a new connection, because the present one may be dead.
    ResetBridge(RelayId),
    /// The settled packet limit of the path to a peer: bytes of the longest inner packet that one datagram carries. The routes of the host to this peer get it as
    /// their MTU.
    PacketLimit {
        /// The peer.
        peer: PeerId,
        /// The limit.
        limit: u16,
    },
    /// The lanes that should run from now on, and the flows of each. The agent starts or ends threads and reports by [`Node::lanes_run`](crate::Node::lanes_run) or
    /// [`Node::lanes_refused`](crate::Node::lanes_refused).
    Lanes(Placement),
    /// What happened, for the event log. Nothing depends on it.
    Event(NodeEvent),
}

/// Outputs that an empty queue keeps room for: more than an ordinary input makes. A map of a thousand members makes thousands, whose room would stay for good.
const KEPT: usize = 64;

/// The outputs that the agent has not fetched.
#[derive(Default)]
pub(crate) struct Outputs(VecDeque<Output>);

impl Outputs {
    /// Adds an output.
    pub(crate) fn push(&mut self, output: Output) {
        self.0.push_back(output);
    }

    /// Adds a command to a lane.
    pub(crate) fn tell(&mut self, lane: LaneId, command: ToLane) {
        self.0.push_back(Output::Lane(lane, command));
    }

    /// Adds an event.
    pub(crate) fn note(&mut self, event: NodeEvent) {
        self.0.push_back(Output::Event(event));
    }

    /// Removes the first output.
    pub(crate) fn pop(&mut self) -> Option<Output> {
        let first = self.0.pop_front();
        if first.is_none() {
            self.0.shrink_to(KEPT);
        }
        first
    }

    /// Drops all commands to lanes.
    pub(crate) fn forget_commands(&mut self) {
        self.0.retain(|output| !matches!(output, Output::Lane(..)));
    }
}
