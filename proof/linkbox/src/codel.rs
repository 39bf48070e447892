//! CoDel (RFC 8289): drops packets at the head of a queue whose waiting time has exceeded a target for a whole interval.

use std::time::Duration;

use taut_base::Time;

/// Waiting time below which a standing queue is tolerated (RFC 8289, 4.3).
const TARGET: Duration = Duration::from_millis(5);
/// Time for which packets must wait longer than [`TARGET`] before one is dropped: about the longest round-trip time (RFC 8289, 4.2).
const INTERVAL: Duration = Duration::from_millis(100);
/// Bytes of a full packet, 1,514: a queue with fewer bytes loses no packet.
const PACKET: usize = 1_514;
/// Number of intervals after the last drop within which renewed dropping continues at its former rate (RFC 8289, 4.5 and its pseudo code).
const RECENT: u32 = 16;

/// The state of one queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Codel {
    /// Time at which packets will have waited too long for a whole interval.
    too_long: Option<Time>,
    dropping: bool,
    /// Time of the next drop.
    next: Time,
    /// Packets dropped since dropping started.
    count: u32,
    /// Value of `count` when dropping started last.
    began_with: u32,
}

impl Codel {
    /// Returns true if the packet at the head, which waited for `waited`, is dropped; `behind` bytes are in the queue behind it.
    pub(crate) fn drops(&mut self, waited: Duration, behind: usize, now: Time) -> bool {
        let standing = self.is_standing(waited, behind, now);
        if self.dropping {
            self.dropping = standing;
            if !standing || now < self.next {
                return false;
            }
            self.count += 1;
            self.next = after(self.next, self.count);
            return true;
        }
        if standing {
            self.begin(now);
        }
        standing
    }

    fn is_standing(&mut self, waited: Duration, behind: usize, now: Time) -> bool {
        if waited < TARGET || behind < PACKET {
            self.too_long = None;
            return false;
        }
        now >= *self.too_long.get_or_insert(now + INTERVAL)
    }

    fn begin(&mut self, now: Time) {
        self.dropping = true;
        let before = self.count - self.began_with.min(self.count);
        let recent = now.since(self.next) < INTERVAL * RECENT;
        self.count = if before > 1 && recent { before } else { 1 };
        self.began_with = self.count;
        self.next = after(now, self.count);
    }
}

/// The control law: the interval shrinks with the square root of the number of drops.
fn after(time: Time, count: u32) -> Time {
    time + INTERVAL.div_f64(f64::from(count.max(1)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(1) + Duration::from_millis(milliseconds)
    }

    /// Offers one packet per millisecond, each after a wait of `waited` milliseconds. Returns the times of the drops.
    fn dropped(codel: &mut Codel, waited: u64, from: u64, to: u64) -> Vec<u64> {
        (from..to).filter(|now| codel.drops(Duration::from_millis(waited), 100_000, at(*now))).collect()
    }

    #[test]
    fn a_standing_queue_loses_packets_at_a_growing_rate() {
        let mut codel = Codel::default();
        assert_eq!(dropped(&mut codel, 20, 0, 500), [100, 200, 271, 329, 379, 424, 464]);
        assert!(dropped(&mut codel, 4, 500, 520).is_empty(), "a wait below the target causes no drop");
        // Dropping that starts again soon continues at its former rate.
        let again = dropped(&mut codel, 20, 520, 760);
        assert_eq!(again[0], 620);
        assert!(again[1] - again[0] < 60, "{again:?}");
    }

    #[test]
    fn a_burst_shorter_than_the_interval_loses_no_packet() {
        let mut codel = Codel::default();
        assert!(dropped(&mut codel, 50, 0, 99).is_empty());
        assert!(dropped(&mut codel, 1, 99, 100).is_empty());
        assert!(dropped(&mut codel, 50, 100, 199).is_empty());
    }

    #[test]
    fn the_last_packet_of_a_queue_is_not_dropped() {
        let mut codel = Codel::default();
        assert!(!(0..1_000).any(|now| codel.drops(Duration::from_secs(1), PACKET - 1, at(now))));
    }
}
