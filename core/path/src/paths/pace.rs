//! How often a way is probed when there is no news of it. The table is in the module above.

use core::time::Duration;

use taut_base::Time;

use super::Paths;
use crate::candidate_state::{CandidateState, DownCause, State};

/// Without data for so long a peer is let go (protocol.md 5.5).
pub(super) const IDLE: Duration = Duration::from_secs(300);

/// Data within this time: the two talk. Longer than the pauses of anything interactive.
const TALKING: Duration = Duration::from_secs(30);

/// Who answered within this time wants to be probed.
pub(super) const CONSENT: Duration = Duration::from_secs(60);

/// The way in use, while data flows: less than the 30 s after which the strictest common NATs forget, twice over with the quick probes that follow a lost
/// one; and more than the 10 s that a probe may cost at most (the table).
const IN_USE: Duration = Duration::from_secs(14);
const IN_USE_QUIET: Duration = Duration::from_secs(20);

/// Another way that leads there: kept open in NATs at first, then only known.
const STANDBY: Duration = Duration::from_secs(24);
const STANDBY_LONGEST: Duration = Duration::from_secs(300);

/// A relay that is not in use: it is what everything falls back on.
const STANDBY_RELAY: Duration = Duration::from_secs(60);

/// The way in use loses much: the relay is measured beside it. Or it is dead, and there is no other.
const COMPARED: Duration = Duration::from_secs(1);

/// For so long one that lost too much is looked at as closely as at first.
const LOSSY_CLOSELY: Duration = Duration::from_secs(300);

/// What is probed while a relay carries data: until when after news, and how often.
const SEARCH: [(Duration, Duration); 3] = [
    (Duration::from_secs(60), Duration::from_secs(1)),
    (Duration::from_secs(300), Duration::from_millis(2_500)),
    (Duration::from_secs(1_800), Duration::from_secs(10)),
];
const SEARCH_LONGEST: Duration = Duration::from_secs(30);

impl Paths {
    /// Between two probes of a way, at least; `None` when it is not probed at all.
    pub(super) fn pace(&self, track: &CandidateState, now: Time) -> Option<Duration> {
        if !self.session || self.let_go || !self.families.has(track.way) {
            return None;
        }
        let talking = self.is_talking(now);
        if self.way == Some(track.way) {
            return Some(match (talking, &track.state) {
                // Nothing is left but this one: when it is back is worth knowing soon.
                (true, State::Down { .. }) => COMPARED,
                (true, _) => IN_USE,
                (false, _) => IN_USE_QUIET,
            });
        }
        if track.way.is_relayed() {
            let compared = self.comparing().is_some() && talking;
            return Some(if compared { COMPARED } else { standby(track, now).min(STANDBY_RELAY) });
        }
        let relayed = self.way.is_none_or(|way| way.is_relayed());
        if track.is_proven() || !relayed {
            return Some(standby(track, now));
        }
        if !talking {
            return Some(SEARCH_LONGEST);
        }
        let age = now.since(track.news.max(self.news));
        // It may be better any moment, and has to answer several times to be believed.
        if matches!(track.state, State::Down { cause: DownCause::Lossy, .. }) && age < LOSSY_CLOSELY {
            return Some(COMPARED);
        }
        Some(SEARCH.iter().find(|(until, _)| age < *until).map_or(SEARCH_LONGEST, |(_, pace)| *pace))
    }

    /// Whether data flowed lately.
    pub(super) fn is_talking(&self, now: Time) -> bool {
        self.active.is_some_and(|active| now.since(active) < TALKING)
    }
}

/// Ever more rarely.
fn standby(track: &CandidateState, now: Time) -> Duration {
    let since = track.proven_since().unwrap_or(track.news);
    (now.since(since) / 4).clamp(STANDBY, STANDBY_LONGEST)
}
