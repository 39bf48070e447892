//! The reasons for a verdict on a way.

/// The reason for a suspicion, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suspicion {
    /// A probe was not answered.
    ProbeLost,
    /// The addresses or routes of one of the two ends changed.
    NetworkChanged,
    /// The peer was proven at another candidate, and is not heard from this one any more.
    PeerMoved,
    /// Data is not acknowledged.
    DataUnacknowledged,
}

/// The reason why a candidate is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DownCause {
    /// Three quick probes were not answered.
    Silent,
    /// It loses much more than the relay.
    Lossy,
    /// Probes are answered, and data is not acknowledged.
    NoData,
}
