//! The two outlets of the way in, as the heart sees them: the real ones in the thread, others in tests and simulators.

use taut_node::ToLane;
use taut_wire::merge::Run;

/// What the way in needs from outside while it works through a batch.
pub trait InboundPorts {
    /// Writes one packet or superpacket to the TUN; false when it did not take it.
    fn write(&mut self, run: Run<'_>) -> bool;

    /// The next command of the keeper: asked before a packet with an unknown index is dropped (protocol.md 1.8).
    fn next_command(&mut self) -> Option<ToLane>;
}
