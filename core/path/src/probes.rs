//! The probes of one candidate: those that wait for an answer, and the statistics of those before.

use core::time::Duration;

use taut_base::Time;

use crate::liveness::LATE_WAKEUP;

/// Limit on probes that wait for an answer. At the shortest gap of 30 ms they span the round-trip time of a slow path.
const KEPT: usize = 16;

/// Time after which an answer is ignored.
const TOO_LATE: Duration = Duration::from_secs(10);

/// Outcomes that the loss is computed from. On a path in use they span about four minutes, during a verdict less than a second.
const OUTCOMES: u32 = 16;

/// Least number of outcomes for a loss.
const ENOUGH: u32 = 8;

/// Latest round-trip times of which the shortest ranks a path: a queue that fills now and then must not make it look longer, and a longer route must
/// show soon.
const SAMPLES: usize = 4;

/// Time that an answer is waited for before anything was measured: longer than any round trip on earth except by satellite.
const UNKNOWN: Duration = Duration::from_secs(1);

/// Bounds of the time that an answer is waited for. Where a queue fills, round-trip times grow by hundreds of milliseconds within one.
const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(4);

/// Probes of one candidate and their statistics.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probes {
    pending: Vec<PendingProbe>,
    /// Outcomes of the latest probes, the last one in the lowest bit; 1 is an answer.
    outcomes: u32,
    judged: u32,
    samples: [Option<Duration>; SAMPLES],
    next_sample: usize,
    /// Smoothed round-trip time and variation (RFC 6298).
    smooth: Option<(Duration, Duration)>,
    /// Answers since the last loss, and losses since the last answer.
    pub(crate) answers_in_row: u32,
    pub(crate) losses_in_row: u32,
    /// Counts since the candidate was added.
    pub(crate) sent: u64,
    pub(crate) answered: u64,
    pub(crate) last_sent: Option<Time>,
    pub(crate) last_answer: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
struct PendingProbe {
    id: u64,
    sent: Time,
    due: Time,
    /// True if the deadline was extended once because this host woke up late.
    excused: bool,
    /// True if it was counted as lost.
    lost: bool,
}

impl Probes {
    /// A probe is sent. It counts as lost without an answer within `patience`, or within the usual time on this path.
    pub(crate) fn send(&mut self, id: u64, patience: Option<Duration>, now: Time) {
        if self.pending.len() == KEPT {
            self.pending.remove(0);
        }
        let due = now + patience.unwrap_or_else(|| self.patience());
        self.pending.push(PendingProbe { id, sent: now, due, excused: false, lost: false });
        self.sent += 1;
        self.last_sent = Some(now);
    }

    /// Returns true if this probe waits for an answer.
    pub(crate) fn waits_for(&self, id: u64) -> bool {
        self.pending.iter().any(|pending| pending.id == id)
    }

    /// Takes an answer. Returns when its probe was sent, if that probe waits for an answer; each is answered once.
    pub(crate) fn answer(&mut self, id: u64, now: Time) -> Option<Time> {
        let place = self.pending.iter().position(|pending| pending.id == id)?;
        let PendingProbe { sent, .. } = self.pending.remove(place);
        self.outcome(true);
        self.measure(now.since(sent));
        self.answered += 1;
        self.last_answer = Some(now);
        Some(sent)
    }

    /// Counts overdue probes as lost and returns their number. A late answer is still taken.
    pub(crate) fn handle_timeout(&mut self, now: Time) -> u32 {
        self.pending.retain(|pending| now.since(pending.sent) < TOO_LATE);
        let mut lost = 0;
        for pending in self.pending.iter_mut().filter(|pending| !pending.lost && now >= pending.due) {
            // This host woke up late: the answer may have arrived and not been read yet.
            if !pending.excused && now >= pending.due + LATE_WAKEUP {
                (pending.due, pending.excused) = (now + LATE_WAKEUP, true);
                continue;
            }
            pending.lost = true;
            lost += 1;
        }
        (0..lost).for_each(|_| self.outcome(false));
        lost
    }

    /// Returns when the next probe counts as lost.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.pending.iter().filter(|pending| !pending.lost).map(|pending| pending.due).min()
    }

    /// Returns true if a probe sent at `since` or later waits for an answer.
    pub(crate) fn any_open(&self, since: Time) -> bool {
        self.pending.iter().any(|pending| !pending.lost && pending.sent >= since)
    }

    /// Returns how long an answer is waited for.
    pub(crate) fn patience(&self) -> Duration {
        self.smooth.map_or(UNKNOWN, |(mean, variation)| (mean * 3 + variation * 4).clamp(SHORTEST, LONGEST))
    }

    /// Returns the mean round-trip time.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.smooth.map(|(mean, _)| mean)
    }

    /// Returns the variation of round-trip times.
    pub(crate) fn variation(&self) -> Duration {
        self.smooth.map_or(Duration::ZERO, |(_, variation)| variation)
    }

    /// Returns the shortest of the latest round-trip times, once there are three.
    pub(crate) fn shortest(&self) -> Option<Duration> {
        let samples = self.samples.iter().flatten();
        if samples.clone().count() < SAMPLES - 1 { None } else { samples.min().copied() }
    }

    /// Returns the shortest of the latest round-trip times, however few there are.
    pub(crate) fn shortest_yet(&self) -> Option<Duration> {
        self.samples.iter().flatten().min().copied()
    }

    /// Returns the lost probes in per cent, once there are enough.
    pub(crate) fn loss(&self) -> Option<u32> {
        let judged = self.judged.min(OUTCOMES);
        let answered = (self.outcomes & ((1 << judged) - 1)).count_ones();
        (judged >= ENOUGH).then(|| (judged - answered) * 100 / judged)
    }

    /// Returns true if all of the latest probes were answered.
    pub(crate) fn lost_none(&self) -> bool {
        self.outcomes.trailing_ones() >= self.judged
    }

    /// Forgets outcomes: later ones describe another state of the path.
    pub(crate) fn forget_losses(&mut self) {
        (self.outcomes, self.judged) = (0, 0);
        (self.answers_in_row, self.losses_in_row) = (0, 0);
    }

    fn outcome(&mut self, answered: bool) {
        self.outcomes = self.outcomes << 1 | u32::from(answered);
        self.judged = (self.judged + 1).min(OUTCOMES);
        if answered {
            (self.answers_in_row, self.losses_in_row) = (self.answers_in_row.saturating_add(1), 0);
        } else {
            (self.answers_in_row, self.losses_in_row) = (0, self.losses_in_row.saturating_add(1));
        }
    }

    fn measure(&mut self, sample: Duration) {
        self.samples[self.next_sample] = Some(sample);
        self.next_sample = (self.next_sample + 1) % SAMPLES;
        self.smooth = Some(match self.smooth {
            None => (sample, sample / 2),
            Some((mean, variation)) => ((mean * 7 + sample) / 8, (variation * 3 + mean.abs_diff(sample)) / 4),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_probe_without_an_answer_in_time_is_lost_and_a_late_answer_counts() {
        let mut probes = Probes::default();
        probes.send(1, None, at(0));
        assert_eq!((probes.poll_timeout(), probes.handle_timeout(at(999))), (Some(at(1_000)), 0));
        assert_eq!((probes.handle_timeout(at(1_000)), probes.handle_timeout(at(1_000))), (1, 0));
        assert_eq!((probes.losses_in_row, probes.poll_timeout()), (1, None));
        assert_eq!(probes.answer(1, at(1_200)), Some(at(0)));
        assert_eq!(probes.answer(1, at(1_201)), None, "once");
        assert_eq!((probes.answers_in_row, probes.losses_in_row), (1, 0));
        assert_eq!(probes.patience(), LONGEST, "three round trips, and four times half of one");
        assert_eq!(probes.answer(2, at(1_201)), None, "never asked");
    }

    #[test]
    fn a_late_wake_up_extends_the_deadline_of_each_probe_once() {
        let mut probes = Probes::default();
        probes.send(1, None, at(0));
        assert_eq!((probes.handle_timeout(at(1_050)), probes.poll_timeout()), (0, Some(at(1_100))));
        assert_eq!(probes.handle_timeout(at(2_000)), 1);
        probes.send(2, None, at(2_000));
        assert_eq!(probes.handle_timeout(at(3_049)), 1, "not late enough");
    }

    #[test]
    fn loss_is_that_of_the_latest() {
        let mut probes = Probes::default();
        for id in 0..7 {
            probes.send(id, None, at(id));
            probes.answer(id, at(id + 10));
        }
        assert_eq!(probes.loss(), None);
        for id in 7..9 {
            probes.send(id, None, at(id));
        }
        probes.handle_timeout(at(510));
        assert_eq!(probes.loss(), Some(22));
        for id in 9..40 {
            probes.send(id, None, at(id * 1_000));
            probes.answer(id, at(id * 1_000 + 10));
        }
        assert_eq!(probes.loss(), Some(0));
        assert_eq!(
            (probes.shortest(), probes.round_trip()),
            (Some(Duration::from_millis(10)), Some(Duration::from_millis(10)))
        );
        probes.forget_losses();
        assert_eq!(probes.loss(), None);
    }

    #[test]
    fn the_state_stays_small() {
        let mut probes = Probes::default();
        (0..1_000).for_each(|id| probes.send(id, None, at(id)));
        assert_eq!((probes.pending.len(), probes.sent), (KEPT, 1_000));
        assert!(!probes.waits_for(900) && probes.waits_for(990));
        probes.handle_timeout(at(100_000));
        assert!(probes.pending.is_empty());
    }
}
