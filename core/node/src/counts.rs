//! Counters of the initiations that reached the node.

/// Outcomes of received initiations since the node started. Initiations that a lane drops are counted in the lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandshakeCounts {
    /// Initiations whose sender was decrypted, at the cost of one Diffie-Hellman each.
    pub computed: u64,
    /// Initiations that were answered by a response that makes a session, which costs three more Diffie-Hellman operations.
    pub answered: u64,
    /// Of the computed ones, copies that were answered with the same response again.
    pub repeated: u64,
    /// Initiations dropped by the limit for all senders (not in `computed`) or by the limit of their peer (in `computed`).
    pub over_limit: u64,
}
