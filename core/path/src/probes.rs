//! The probes of one way: which are waited for, and what those before say of it.

use core::time::Duration;

use taut_base::Time;

use crate::liveness::AWAY;

/// Probes that may still be answered. With the shortest gap of 30 ms they reach back for as long as a slow path takes.
const KEPT: usize = 16;

/// An answer that comes later than this says nothing any more.
const TOO_LATE: Duration = Duration::from_secs(10);

/// Outcomes that the loss is computed of. At the pace of a path in use that is about four minutes, at that of a judgement less than a second.
const OUTCOMES: u32 = 16;

/// Below so many outcomes there is no loss to speak of.
const ENOUGH: u32 = 8;

/// Round trips of which the shortest ranks a path: queues that fill now and then must not make it look longer, and a longer route must show soon.
const SAMPLES: usize = 4;

/// Until when an answer is waited for before anything is known: longer than any round trip on earth that is not by satellite.
const UNKNOWN: Duration = Duration::from_secs(1);

/// Bounds of the wait for an answer. Where a queue fills, round trips grow by hundreds of milliseconds within one.
const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(4);

/// What probes of one way say of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probes {
    waiting: Vec<Waiting>,
    /// Outcomes, the latest in the lowest bit; 1 is an answer.
    outcomes: u32,
    judged: u32,
    samples: [Option<Duration>; SAMPLES],
    next_sample: usize,
    /// As RFC 6298 smooths round trips and their variation.
    smooth: Option<(Duration, Duration)>,
    /// Answers since the last loss, and losses since the last answer.
    pub(crate) answers_in_row: u32,
    pub(crate) losses_in_row: u32,
    /// Since the way is known.
    pub(crate) sent: u64,
    pub(crate) answered: u64,
    pub(crate) last_sent: Option<Time>,
    pub(crate) last_answer: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: u64,
    sent: Time,
    due: Time,
    /// We were away when it was due, and it was given some more time.
    excused: bool,
    /// It was counted as lost.
    lost: bool,
}

impl Probes {
    /// A probe leaves; it counts as lost when nothing came within `patience`, or what is usual on this way.
    pub(crate) fn send(&mut self, id: u64, patience: Option<Duration>, now: Time) {
        if self.waiting.len() == KEPT {
            self.waiting.remove(0);
        }
        let due = now + patience.unwrap_or_else(|| self.patience());
        self.waiting.push(Waiting { id, sent: now, due, excused: false, lost: false });
        self.sent += 1;
        self.last_sent = Some(now);
    }

    /// Whether an answer to this probe would be one.
    pub(crate) fn waits_for(&self, id: u64) -> bool {
        self.waiting.iter().any(|waiting| waiting.id == id)
    }

    /// An answer came: when its probe was sent, if it is one of those that are waited for. Each is answered once.
    pub(crate) fn answer(&mut self, id: u64, now: Time) -> Option<Time> {
        let place = self.waiting.iter().position(|waiting| waiting.id == id)?;
        let Waiting { sent, .. } = self.waiting.remove(place);
        self.outcome(true);
        self.measure(now.since(sent));
        self.answered += 1;
        self.last_answer = Some(now);
        Some(sent)
    }

    /// Counts what was not answered in time; how many that is. A late answer is one all the same.
    pub(crate) fn handle_timeout(&mut self, now: Time) -> u32 {
        self.waiting.retain(|waiting| now.since(waiting.sent) < TOO_LATE);
        let mut lost = 0;
        for waiting in self.waiting.iter_mut().filter(|waiting| !waiting.lost && now >= waiting.due) {
            // We were away: its answer may be here and not yet read.
            if !waiting.excused && now >= waiting.due + AWAY {
                (waiting.due, waiting.excused) = (now + AWAY, true);
                continue;
            }
            waiting.lost = true;
            lost += 1;
        }
        (0..lost).for_each(|_| self.outcome(false));
        lost
    }

    /// When the next one is lost if nothing comes.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.waiting.iter().filter(|waiting| !waiting.lost).map(|waiting| waiting.due).min()
    }

    /// Whether a probe that was sent at `since` or later may still be answered in time.
    pub(crate) fn any_open(&self, since: Time) -> bool {
        self.waiting.iter().any(|waiting| !waiting.lost && waiting.sent >= since)
    }

    /// How long an answer is waited for.
    pub(crate) fn patience(&self) -> Duration {
        self.smooth.map_or(UNKNOWN, |(mean, variation)| (mean * 3 + variation * 4).clamp(SHORTEST, LONGEST))
    }

    /// The mean round trip.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.smooth.map(|(mean, _)| mean)
    }

    /// How much round trips differ.
    pub(crate) fn variation(&self) -> Duration {
        self.smooth.map_or(Duration::ZERO, |(_, variation)| variation)
    }

    /// The shortest of the last few round trips, once there are three.
    pub(crate) fn shortest(&self) -> Option<Duration> {
        let samples = self.samples.iter().flatten();
        if samples.clone().count() < SAMPLES - 1 { None } else { samples.min().copied() }
    }

    /// The shortest of the last few round trips, however few.
    pub(crate) fn shortest_yet(&self) -> Option<Duration> {
        self.samples.iter().flatten().min().copied()
    }

    /// Lost probes in per cent, once there are enough.
    pub(crate) fn loss(&self) -> Option<u32> {
        let judged = self.judged.min(OUTCOMES);
        let answered = (self.outcomes & ((1 << judged) - 1)).count_ones();
        (judged >= ENOUGH).then(|| (judged - answered) * 100 / judged)
    }

    /// Whether all of the latest were answered.
    pub(crate) fn lost_none(&self) -> bool {
        self.outcomes.trailing_ones() >= self.judged
    }

    /// Outcomes from now on say something else than those before.
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
    fn what_is_not_answered_in_time_is_lost_and_an_answer_that_is_late_counts() {
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
    fn who_was_away_gives_each_probe_a_moment_more_but_once() {
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
    fn it_stays_small() {
        let mut probes = Probes::default();
        (0..1_000).for_each(|id| probes.send(id, None, at(id)));
        assert_eq!((probes.waiting.len(), probes.sent), (KEPT, 1_000));
        assert!(!probes.waits_for(900) && probes.waits_for(990));
        probes.handle_timeout(at(100_000));
        assert!(probes.waiting.is_empty());
    }
}
