//! The outlets of the way in, as the lane core sees them: the real ones in the thread, others in tests and simulators.

use std::net::SocketAddr;

use taut_base::LaneId;
use taut_node::ToLane;
use taut_wire::merge::Run;

/// What the way in needs from outside while it works through a batch.
pub trait InboundPorts {
    /// Writes one packet or superpacket to the TUN; false when it did not take it.
    fn write(&mut self, run: Run<'_>) -> bool;

    /// Hands a datagram that carries another lane's index over to the lane of ours that has it; false when that cannot be.
    fn hand_over(&mut self, to: LaneId, source: SocketAddr, datagram: &[u8]) -> bool {
        let _ = (to, source, datagram);
        false
    }

    /// The next command of the agent: asked before a packet with an unknown index is dropped (protocol.md 1.8).
    fn next_command(&mut self) -> Option<ToLane>;
}
