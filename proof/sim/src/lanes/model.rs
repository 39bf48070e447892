//! A model of a core: how long a lane's thread works for its datagrams. It is arithmetic, not a measurement.

use std::time::Duration;

use taut_base::Time;

/// The longest work that is put off, 10 ms: handed-off packets beyond it do not delay the thread further.
const MOST_WAITING: Duration = Duration::from_millis(10);

/// A thread on a core of its own, for which each datagram is the same work. While it works for datagrams that it sent, it reads nothing from the TUN.
#[derive(Clone, Copy)]
pub(super) struct CoreModel {
    /// The work for one datagram; zero for a core that is never busy.
    cost: Duration,
    /// All work so far, including that which is not done yet.
    total: Duration,
    /// When all of it is done.
    free_at: Time,
}

impl CoreModel {
    pub(super) fn new(cost: Duration) -> Self {
        Self { cost, total: Duration::ZERO, free_at: Time::ZERO }
    }

    /// Adds the work for one received datagram. It counts, and does not delay what the thread does next: how sockets share a thread is no part of the model.
    pub(super) fn received(&mut self) {
        self.total += self.cost;
    }

    /// Adds the work for one sent datagram.
    pub(super) fn sent(&mut self, now: Time) {
        let start = self.free_at.max(now);
        self.free_at = (start + self.cost).min((now + MOST_WAITING).max(start));
        self.total += self.free_at.since(start);
    }

    /// Returns the time for which the thread has worked so far.
    pub(super) fn worked(&self, now: Time) -> Duration {
        self.total.saturating_sub(self.free_at.since(now))
    }

    /// Returns the time at which it has nothing left to do.
    pub(super) fn free_at(&self) -> Time {
        self.free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_its_time_and_never_piles_up() {
        let ms = |milliseconds| Time::ZERO + Duration::from_millis(milliseconds);
        let mut core = CoreModel::new(Duration::from_millis(4));
        (0..2).for_each(|_| core.sent(ms(100)));
        assert_eq!(core.free_at(), ms(108));
        assert_eq!([100, 104, 108, 200].map(|now| core.worked(ms(now)).as_millis()), [0, 4, 8, 8]);
        (0..100).for_each(|_| core.sent(ms(200)));
        assert_eq!(core.free_at(), ms(210));
        assert_eq!(core.worked(ms(210)).as_millis(), 18);
    }
}
