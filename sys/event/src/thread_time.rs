//! What the scheduler counts of a thread's time (Documentation/scheduler/sched-stats.rst).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Length of the three decimal numbers at most.
const LINE: usize = 64;

/// The counters of one thread.
#[derive(Debug)]
pub struct ThreadTime {
    file: File,
}

impl ThreadTime {
    /// Returns the counters of the calling thread; `None` if the kernel does not keep them, or if `/proc` is missing.
    #[must_use]
    pub fn of_this_thread() -> Option<Self> {
        let time = Self { file: File::open("/proc/thread-self/schedstat").ok()? };
        time.ran_and_waited().is_some().then_some(time)
    }

    /// Returns the time for which the thread ran, and the time for which it was ready to run and had no core, since it began. `None` if the kernel does not count
    /// them.
    #[must_use]
    pub fn ran_and_waited(&self) -> Option<(Duration, Duration)> {
        let mut line = [0; LINE];
        let length = self.file.read_at(&mut line, 0).ok()?;
        let mut numbers = std::str::from_utf8(line.get(..length)?).ok()?.split_ascii_whitespace();
        let (ran, waited) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
        Some((Duration::from_nanos(ran), Duration::from_nanos(waited)))
    }
}

#[cfg(test)]
mod tests {
    use super::ThreadTime;
    use std::time::Duration;

    #[test]
    fn a_thread_that_computes_has_run_for_longer_and_longer() {
        // Not every kernel counts it.
        let Some(time) = ThreadTime::of_this_thread() else { return };
        let (before, _) = time.ran_and_waited().expect("known a moment ago");
        while time.ran_and_waited().expect("known a moment ago").0 < before + Duration::from_millis(5) {
            std::hint::spin_loop();
        }
    }
}
