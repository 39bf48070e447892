//! The relay's load, as coordinators are told of it.

use std::time::Duration;

use taut_base::Time;
use taut_netmap::RelayLoad;

use crate::stats::Stats;
use crate::system::clocks;

/// Clock ticks per second in `/proc/self/stat`, 100 on every Linux architecture that we build for (`USER_HZ`).
const TICKS: u64 = 100;

/// Shortest time that rates are computed for, 1 s: the kernel counts processor time in ticks of 10 ms.
const SHORTEST: Duration = Duration::from_secs(1);

/// Names of the threads that forward begin so.
const FORWARDS: &str = "relay-";

/// Computes loads from counters: each covers the time since the one before.
pub(super) struct LoadMeter {
    capacity: u64,
    clients: usize,
    workers: usize,
    stats: Box<dyn Fn() -> Stats + Send>,
    began: Time,
    last: Reading,
}

/// Counters at one moment.
#[derive(Clone, Copy)]
struct Reading {
    at: Time,
    bytes: u64,
    dropped: u64,
    processor: Duration,
}

impl LoadMeter {
    pub(super) fn new(capacity: u64, clients: usize, workers: usize, stats: Box<dyn Fn() -> Stats + Send>) -> Self {
        let now = clocks().now;
        let last = Reading::new(&stats(), now, processor_time());
        Self { capacity, clients, workers, stats, began: now, last }
    }

    /// Returns the load since the last call.
    pub(super) fn read(&mut self) -> RelayLoad {
        let (stats, now) = ((self.stats)(), clocks().now);
        let next = Reading::new(&stats, now, processor_time());
        let last = std::mem::replace(&mut self.last, next);
        let time = next.at.since(last.at);
        let is_measured = time >= SHORTEST;
        let (bytes, used) = (next.bytes.saturating_sub(last.bytes), next.processor.saturating_sub(last.processor));
        RelayLoad {
            clients: stats.tally.clients,
            clients_max: self.clients as u64,
            bits_per_second: if is_measured { per_second(bytes.saturating_mul(8), time) } else { 0 },
            capacity: self.capacity,
            processor: if is_measured { share(used, time, self.workers) } else { 0 },
            dropped: next.dropped.saturating_sub(last.dropped),
            uptime: now.since(self.began).as_secs(),
        }
    }
}

impl Reading {
    fn new(stats: &Stats, at: Time, processor: Duration) -> Self {
        let dropped = stats.drops().iter().map(|(_, count)| count).sum();
        Self { at, bytes: stats.counts.bytes, dropped, processor }
    }
}

fn per_second(count: u64, time: Duration) -> u64 {
    let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
    count.saturating_mul(1_000) / milliseconds
}

/// Returns the part of what `workers` threads could have used, in thousandths.
fn share(used: Duration, time: Duration, workers: usize) -> u32 {
    let most = time.as_micros().saturating_mul(workers.max(1) as u128).max(1);
    u32::try_from(used.as_micros().saturating_mul(1_000) / most).unwrap_or(u32::MAX).min(1_000)
}

/// Returns the processor time of the threads that forward; zero if the kernel does not tell it.
fn processor_time() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lines = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    let ticks: u64 = lines.filter_map(|line| ticks(&line)).sum();
    Duration::from_millis(ticks.saturating_mul(1_000 / TICKS))
}

/// Returns the ticks of a thread that forwards, in user and kernel mode: fields 14 and 15 of proc_pid_stat(5).
fn ticks(line: &str) -> Option<u64> {
    // The name may contain spaces and parentheses.
    let (head, after) = line.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let mut fields = after.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    let ticks = next()?.saturating_add(next()?);
    name.starts_with(FORWARDS).then_some(ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_those_of_the_threads_that_forward() {
        let fields = ") S 1 12 12 0 -1 4194560 100 0 0 0 250 150 0 0 20 0 3 0 99";
        assert_eq!(ticks(&format!("12 (relay-0{fields}")), Some(400));
        assert_eq!(ticks(&format!("12 (relay-web{fields}")), Some(400));
        assert_eq!(ticks(&format!("12 (a relay-) b{fields}")), None);
        assert_eq!(ticks(""), None);
        assert_eq!(ticks("12 (relay-0) S 1"), None);
    }

    #[test]
    fn shares_are_of_all_threads_and_never_more_than_the_whole() {
        let second = Duration::from_secs(1);
        assert_eq!(share(second / 2, second, 1), 500);
        assert_eq!(share(second / 2, second, 2), 250);
        assert_eq!(share(3 * second, second, 2), 1_000);
        assert_eq!(share(Duration::ZERO, Duration::ZERO, 0), 0);
        assert_eq!(per_second(1_000, Duration::from_secs(10)), 100);
        assert_eq!(per_second(1, Duration::ZERO), 1_000);
    }

    #[test]
    fn a_load_covers_the_time_since_the_one_before() {
        let stats = || {
            let mut stats = Stats::default();
            (stats.tally.clients, stats.counts.bytes, stats.counts.over_share) = (7, 1_000, 3);
            stats
        };
        let mut meter = LoadMeter::new(5, 10, 2, Box::new(stats));
        let load = meter.read();
        assert_eq!((load.clients, load.clients_max, load.capacity), (7, 10, 5));
        assert_eq!((load.bits_per_second, load.dropped), (0, 0), "nothing since the start");
    }
}
