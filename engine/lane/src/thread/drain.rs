//! Progress of a drain: the agent asked to be told once everything is read that waited when it asked.

/// Packets after which everything is read that waited when a drain began, 1,000: more than a TUN queue holds (`TUN_READQ_SIZE`, drivers/net/tun.c: 500).
const TUN_QUEUE: usize = 1_000;

/// How far a drain is.
#[derive(Default)]
pub(super) struct DrainProgress {
    /// Packets read since the agent asked.
    read: usize,
    /// True if the TUN queue was empty once since the agent asked.
    was_empty: bool,
    /// True if everything was taken that waited in the rings when the agent asked.
    rings_taken: bool,
}

impl DrainProgress {
    /// Notes that a packet was read.
    pub(super) fn packet_read(&mut self) {
        self.read += 1;
    }

    /// Notes that the TUN queue is empty.
    pub(super) fn queue_empty(&mut self) {
        self.was_empty = true;
    }

    /// Notes that everything was taken that waited in the rings.
    pub(super) fn rings_taken(&mut self) {
        self.rings_taken = true;
    }

    /// Returns true if nothing is left of what waited. `reads` is false if this lane does not read its TUN queue.
    pub(super) fn is_done(&self, reads: bool) -> bool {
        self.rings_taken && (!reads || self.was_empty || self.read >= TUN_QUEUE)
    }
}
