//! When the daemon starts a helper: at its start, and again after a pause, if the helper ends before the daemon does.

use std::io;
use std::path::Path;
use std::time::Duration;

use taut_base::Time;

use crate::outside::{self, HelperLaunch, Started};

/// Pause before the first new helper, 2 s; each further one is twice as long, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// Longest pause between two attempts, 60 s. A helper that ran so long begins with the first pause again.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Starts helpers.
pub(super) struct Launch {
    helper: HelperLaunch,
    pause: Duration,
    /// Time of the last attempt.
    last: Time,
    /// Time of the next one, if a helper is missing.
    pub(super) due: Option<Time>,
}

impl Launch {
    pub(super) fn new(program: &Path) -> Self {
        Self { helper: HelperLaunch::new(program), pause: FIRST_PAUSE, last: Time(0), due: None }
    }

    /// Starts a helper.
    pub(super) fn start(&mut self, now: Time) -> io::Result<Started> {
        (self.last, self.due) = (now, None);
        let started = outside::start_helper(&mut self.helper);
        if started.is_err() {
            self.retry(now);
        }
        started
    }

    /// Has a new helper be started after a pause.
    pub(super) fn retry(&mut self, now: Time) {
        if now.since(self.last) >= LONGEST_PAUSE {
            self.pause = FIRST_PAUSE;
        }
        self.due = Some(now + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_h3_the_pause_doubles_until_a_helper_stays() {
        let mut launch = Launch::new(Path::new("/nonexistent/taut"));
        launch.helper.always_spawn();
        let (mut now, mut pauses) = (Time::from_duration(Duration::from_secs(100)), Vec::new());
        for _ in 0..7 {
            assert!(launch.start(now).is_err());
            let due = launch.due.unwrap();
            pauses.push(due.since(now).as_secs());
            now = due;
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 60, 60]);
        launch.helper = HelperLaunch::new(Path::new("/bin/true"));
        launch.helper.always_spawn();
        let (child, _stream) = launch.start(now).unwrap();
        child.unwrap().wait().unwrap();
        assert_eq!(launch.due, None);
        launch.retry(now + LONGEST_PAUSE);
        assert_eq!(launch.due.unwrap().since(now + LONGEST_PAUSE), FIRST_PAUSE);
    }
}
