//! What the way in needs from outside, as the lane core sees it: system calls in the thread, something else in tests and simulators.

use std::net::SocketAddr;

use taut_base::LaneId;
use taut_node::ToLane;
use taut_wire::merge::Run;

/// What the way in needs from outside while it works through a batch.
pub trait InboundIo {
    /// Writes one packet or superpacket to the TUN. Returns false if the TUN did not take it.
    fn write(&mut self, run: Run<'_>) -> bool;

    /// Hands off a datagram with another lane's index to that lane of ours. Returns false if that lane cannot take it.
    fn hand_off(&mut self, to: LaneId, source: SocketAddr, datagram: &[u8]) -> bool {
        let _ = (to, source, datagram);
        false
    }

    /// Returns the agent's next command. It is asked for before a packet with an unknown index is dropped (protocol.md 1.8).
    fn next_command(&mut self) -> Option<ToLane>;
}
