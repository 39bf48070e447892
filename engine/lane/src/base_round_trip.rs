//! The round-trip time of a peer's path without what waits in queues: the shortest that a probe took from this lane and back to it.
//!
//! The agent's mean is of no use here. It is measured on a loaded path, too, and contains the time until the agent is scheduled. The lane sees every probe and its answer itself; most come while
//! the packet limit of a new path is found.

use std::time::Duration;

use taut_base::Time;

/// Measures the round trip on the path in use.
#[derive(Debug, Default)]
pub(crate) struct BaseRoundTrip {
    /// The last probe on the path, and when it was sent.
    probe: Option<(u64, Time)>,
    shortest: Option<Duration>,
}

impl BaseRoundTrip {
    /// Notes that a probe was sent on the path in use.
    pub(crate) fn sent(&mut self, probe: u64, now: Time) {
        self.probe = Some((probe, now));
    }

    /// Notes the answer to a probe. Answers to earlier probes are ignored.
    pub(crate) fn answered(&mut self, probe: u64, now: Time) {
        if let Some((_, sent)) = self.probe.take_if(|(last, _)| *last == probe) {
            self.measured(now.since(sent));
        }
    }

    /// Notes a round trip that was measured elsewhere.
    pub(crate) fn measured(&mut self, round_trip: Duration) {
        self.shortest = Some(self.shortest.map_or(round_trip, |known| known.min(round_trip)));
    }

    /// Returns the shortest round trip on the path in use, if one was measured.
    pub(crate) fn shortest(&self) -> Option<Duration> {
        self.shortest
    }

    /// Forgets everything: another path is in use.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(1_000 + millis)
    }

    #[test]
    fn the_shortest_round_trip_counts_until_the_path_changes() {
        let mut base = BaseRoundTrip::default();
        assert_eq!(base.shortest(), None);
        for (probe, took, shortest) in [(1, 5, 5), (2, 3, 3), (3, 9, 3)] {
            base.sent(probe, at(0));
            base.answered(probe, at(took));
            assert_eq!(base.shortest(), Some(Duration::from_millis(shortest)));
        }
        base.measured(Duration::from_millis(2));
        base.measured(Duration::from_millis(4));
        assert_eq!(base.shortest(), Some(Duration::from_millis(2)));
        base.forget();
        assert_eq!(base.shortest(), None);
    }

    #[test]
    fn only_the_first_answer_to_the_last_probe_is_measured() {
        let mut base = BaseRoundTrip::default();
        base.sent(1, at(0));
        base.sent(2, at(10));
        base.answered(1, at(11));
        base.answered(7, at(11));
        assert_eq!(base.shortest(), None);
        base.answered(2, at(13));
        base.answered(2, at(10));
        assert_eq!(base.shortest(), Some(Duration::from_millis(3)));
    }
}
