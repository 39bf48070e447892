//! Whether a router of a subnet answers, by what the paths to it show. Pure: time is an argument.

use std::time::Duration;

use taut_base::Time;

/// Time for which a router that failed must answer before it carries again, 10 s, doubled with each failure.
const FIRST_HOLD: Duration = Duration::from_secs(10);

/// Longest such time, 5 minutes.
const LONGEST_HOLD: Duration = Duration::from_secs(300);

/// Time after which a router's former failures do not count any more, 10 minutes without one.
const FORGIVEN: Duration = Duration::from_secs(600);

/// Time for which a router may be in doubt before it counts as failed, 350 ms beyond two round trips. Meanwhile other paths to it are tried.
const LONGEST_DOUBT: Duration = Duration::from_millis(350);

/// Time without doubt after which a router works again, 150 ms, if it did not answer before: a path that was just chosen is probed at once.
const STEADY: Duration = Duration::from_millis(150);

/// Whether a router answers, judged by the paths to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// There is a session, and nothing against its path, which data takes since this time.
    Good(Time),
    /// An answer on its path, of this round-trip time, is late.
    Doubt(Duration),
    /// Nothing answers.
    Bad,
    /// There is no session, and nobody has asked.
    Unknown,
}

/// Whether a router answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Health {
    /// When it began to answer, or ceased to.
    since: Time,
    pub(crate) answers: bool,
    /// Failures that count.
    pub(crate) failures: u32,
    /// When the present doubt began, and for how long it may last.
    doubt: Option<(Time, Duration)>,
    /// Since when there are only good signs.
    good: Option<Time>,
    /// Time from which data takes a path that was probed because it replaced one in doubt.
    probed: Option<Time>,
    /// True if the path that replaced one in doubt has to be probed now.
    pub(crate) wants_probe: bool,
    /// True while this node waits for the answer of the router.
    pub(crate) asked: bool,
    /// When it last answered because it was asked.
    pub(crate) verified: Time,
}

impl Health {
    pub(crate) fn new(now: Time) -> Self {
        Self {
            since: now,
            answers: true,
            failures: 0,
            doubt: None,
            good: None,
            probed: None,
            wants_probe: false,
            asked: false,
            verified: Time::ZERO,
        }
    }

    /// Returns the time from which it may be chosen before another one that works.
    pub(crate) fn settled(&self) -> Option<Time> {
        let doublings = self.failures.saturating_sub(1).min(5);
        let hold = if self.failures == 0 { Duration::ZERO } else { (FIRST_HOLD * (1 << doublings)).min(LONGEST_HOLD) };
        self.answers.then(|| self.since + hold)
    }

    /// Returns when the present trouble began.
    pub(crate) fn trouble(&self) -> Option<Time> {
        self.doubt.map(|(began, _)| began).or((!self.answers).then_some(self.since))
    }

    /// Returns the time at which a doubt ends one way or the other.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let (began, longest) = self.doubt?;
        let fails = self.answers.then(|| began + longest);
        fails.into_iter().chain(self.good.map(|good| good + STEADY)).min()
    }

    pub(crate) fn note(&mut self, sign: Sign, now: Time) {
        match sign {
            Sign::Unknown => return,
            Sign::Good(path) => self.note_good(path, now),
            Sign::Doubt(round_trip) => {
                self.doubt.get_or_insert((now, LONGEST_DOUBT + 2 * round_trip));
                self.good = None;
            }
            Sign::Bad => {
                self.doubt.get_or_insert((now, LONGEST_DOUBT));
                (self.good, self.asked) = (None, false);
                self.set(false, now);
            }
        }
        if self.good.is_some_and(|good| self.doubt.is_none() || now >= good + STEADY) {
            self.doubt = None;
            self.set(true, now);
        } else if self.doubt.is_some_and(|(began, longest)| now >= began + longest) {
            self.set(false, now);
        }
    }

    /// Notes that nothing is against the path that data takes since `path`. A path in place of one in doubt is probed; one that has answered ends the doubt.
    fn note_good(&mut self, path: Time, now: Time) {
        self.verified = if std::mem::take(&mut self.asked) { now } else { self.verified };
        let has_answered = self.good.is_none();
        self.good.get_or_insert(now);
        let Some((began, _)) = self.doubt else { return };
        if path > began && self.probed != Some(path) {
            (self.probed, self.wants_probe) = (Some(path), true);
        } else if has_answered {
            self.doubt = None;
        }
    }

    fn set(&mut self, answers: bool, now: Time) {
        if answers == self.answers {
            return;
        }
        if !answers {
            let is_forgiven = now.since(self.since) >= FORGIVEN;
            self.failures = if is_forgiven { 1 } else { self.failures.saturating_add(1) };
        }
        (self.answers, self.since) = (answers, now);
    }
}
