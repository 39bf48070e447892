//! The interval between probes of a candidate when nothing changes; the table is in the documentation of the parent module.

use core::time::Duration;

use taut_base::Time;

use super::Paths;
use crate::candidate_state::{CandidateState, State};
use crate::reasons::DownCause;

/// Time without data after which a peer is idle and nothing is probed (protocol.md 5.5).
pub(super) const IDLE_AFTER: Duration = Duration::from_secs(300);

/// Data within this time counts as an active conversation. Longer than the pauses of interactive use.
const TALKING_WINDOW: Duration = Duration::from_secs(30);

/// Time for which an answer counts as consent to further probes.
pub(super) const CONSENT_LASTS: Duration = Duration::from_secs(60);

/// Intervals on the path in use, 14 s while data flows and 20 s otherwise. The strictest common NATs drop a mapping after 30 s: two probes and the quick
/// probes after a lost one come before that. A path may cost one probe per 10 s at most.
const IN_USE: Duration = Duration::from_secs(14);
const IN_USE_QUIET: Duration = Duration::from_secs(20);

/// Interval on other proven candidates: 24 s keeps their NAT mappings open at first; up to 5 minutes later.
const STANDBY: Duration = Duration::from_secs(24);
const STANDBY_MAX: Duration = Duration::from_secs(300);

/// Longest interval on a relay that is not in use, 60 s: it is the fallback for everything.
const STANDBY_RELAY: Duration = Duration::from_secs(60);

/// Interval on the relay while the path in use loses much, and on a path in use that is down and has no alternative.
const COMPARE_INTERVAL: Duration = Duration::from_secs(1);

/// Time for which a candidate that lost too much is probed every second, 5 minutes.
const LOSSY_WATCHED: Duration = Duration::from_secs(300);

/// Intervals on unproven candidates while a relay carries data: (until this long after the last change, interval).
const UNPROVEN_INTERVALS: [(Duration, Duration); 3] = [
    (Duration::from_secs(60), Duration::from_secs(1)),
    (Duration::from_secs(300), Duration::from_millis(2_500)),
    (Duration::from_secs(1_800), Duration::from_secs(10)),
];
const UNPROVEN_LONGEST: Duration = Duration::from_secs(30);

impl Paths {
    /// Returns the least time between two probes of a candidate; `None` if it is not probed.
    pub(super) fn pace(&self, candidate: &CandidateState, now: Time) -> Option<Duration> {
        if !self.session || self.is_idle || !self.families.has(candidate.way) {
            return None;
        }
        let talking = self.is_talking(now);
        if self.way == Some(candidate.way) {
            return Some(match (talking, &candidate.state) {
                // There is no other path: its return has to be noticed soon.
                (true, State::Down { .. }) => COMPARE_INTERVAL,
                (true, _) => IN_USE,
                (false, _) => IN_USE_QUIET,
            });
        }
        if candidate.way.is_relayed() {
            let compared = self.loss_to_compare().is_some() && talking;
            return Some(if compared { COMPARE_INTERVAL } else { standby(candidate, now).min(STANDBY_RELAY) });
        }
        let relayed = self.way.is_none_or(|way| way.is_relayed());
        if candidate.is_proven() || !relayed {
            return Some(standby(candidate, now));
        }
        if !talking {
            return Some(UNPROVEN_LONGEST);
        }
        let age = now.since(candidate.changed_at.max(self.changed_at));
        // The loss may end at any moment, and several answers are needed to show it.
        if matches!(candidate.state, State::Down { cause: DownCause::Lossy, .. }) && age < LOSSY_WATCHED {
            return Some(COMPARE_INTERVAL);
        }
        Some(UNPROVEN_INTERVALS.iter().find(|(until, _)| age < *until).map_or(UNPROVEN_LONGEST, |(_, pace)| *pace))
    }

    /// Returns true if data flowed recently.
    pub(super) fn is_talking(&self, now: Time) -> bool {
        self.last_data.is_some_and(|active| now.since(active) < TALKING_WINDOW)
    }
}

/// Returns a standby interval: a quarter of the time since the proof, within the bounds.
fn standby(candidate: &CandidateState, now: Time) -> Duration {
    let since = candidate.proven_since().unwrap_or(candidate.changed_at);
    (now.since(since) / 4).clamp(STANDBY, STANDBY_MAX)
}
