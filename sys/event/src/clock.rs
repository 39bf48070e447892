//! The two clocks of a node: one to measure with, one to display and to sign with.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the time since the host booted, *including* suspended time (`CLOCK_BOOTTIME`): a laptop that slept for an hour
/// has sessions that are an hour older. Never goes backwards.
pub fn boot_time() -> Duration {
    read(libc::CLOCK_BOOTTIME).or_else(|| read(libc::CLOCK_MONOTONIC)).unwrap_or_default()
}

/// Returns the time since 1970-01-01 UTC by the host's clock; zero if the clock is before that. The clock may jump in both
/// directions, so it must not measure durations.
pub fn wall_clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn read(clock: libc::clockid_t) -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` lives across the call.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return None;
    }
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

#[cfg(test)]
mod tests {
    use super::{boot_time, read, wall_clock};

    #[test]
    fn boot_time_only_rises_and_counts_sleep() {
        let (before, awake, after) = (boot_time(), read(libc::CLOCK_MONOTONIC).unwrap(), boot_time());
        assert!(before <= after);
        assert!(awake <= after, "time awake is part of time since boot");
        assert!(!before.is_zero());
    }

    #[test]
    fn the_wall_clock_is_another_clock() {
        assert!(wall_clock() > boot_time());
    }

    #[test]
    fn an_unknown_clock_is_no_time() {
        assert_eq!(read(9_999), None);
    }
}
