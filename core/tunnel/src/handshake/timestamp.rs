//! TAI64N timestamps: a responder accepts an initiation only if its timestamp is later than the last one, and so rejects replays (paper, section 5.1).

use std::time::Duration;

/// TAI64 label of the Unix epoch, in seconds: 2^62, plus ten leap seconds (<https://cr.yp.to/libtai/tai64.html>). Only the order of labels matters.
const EPOCH: u64 = (1 << 62) + 10;

/// Resolution of a timestamp, 2^24 ns (17 ms): coarse enough not to show on the wire how long a handshake took to compute.
const GRAIN: u32 = 1 << 24;

/// A TAI64N timestamp: seconds and nanoseconds, big-endian, so that byte order is time order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub [u8; 12]);

impl Timestamp {
    /// Returns the timestamp of a wall-clock time, which is given as time since the Unix epoch.
    pub fn from_wall_clock(since_epoch: Duration) -> Self {
        let seconds = EPOCH.saturating_add(since_epoch.as_secs());
        let nanoseconds = since_epoch.subsec_nanos() & !(GRAIN - 1);
        Self::from_parts(seconds, nanoseconds)
    }

    /// Returns the wall-clock time of the timestamp, as time since the Unix epoch.
    pub fn since_epoch(self) -> Duration {
        let [s0, s1, s2, s3, s4, s5, s6, s7, nanoseconds @ ..] = self.0;
        let seconds = u64::from_be_bytes([s0, s1, s2, s3, s4, s5, s6, s7]).saturating_sub(EPOCH);
        Duration::from_secs(seconds).saturating_add(Duration::from_nanos(u32::from_be_bytes(nanoseconds).into()))
    }

    /// Returns the later of this timestamp and the first one after `last`, so that the timestamps of one node only rise.
    pub fn after(self, last: Self) -> Self {
        if self > last { self } else { last.next() }
    }

    fn next(self) -> Self {
        let [s0, s1, s2, s3, s4, s5, s6, s7, nanoseconds @ ..] = self.0;
        let seconds = u64::from_be_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
        let nanoseconds = u32::from_be_bytes(nanoseconds).saturating_add(GRAIN);
        if nanoseconds < 1_000_000_000 {
            Self::from_parts(seconds, nanoseconds)
        } else {
            Self::from_parts(seconds.saturating_add(1), 0)
        }
    }

    fn from_parts(seconds: u64, nanoseconds: u32) -> Self {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&seconds.to_be_bytes());
        bytes[8..].copy_from_slice(&nanoseconds.to_be_bytes());
        Self(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_rise_even_when_the_clock_does_not() {
        let now = Timestamp::from_wall_clock(Duration::from_millis(1_700_000_000_999));
        let mut last = now;
        for _ in 0..200 {
            let next = now.after(last);
            assert!(next > last);
            last = next;
        }
        assert!(Timestamp::from_wall_clock(Duration::ZERO).after(last) > last);
        let later = Timestamp::from_wall_clock(Duration::from_secs(1_800_000_000));
        assert_eq!(later.after(last), later);
        assert_eq!(later.since_epoch(), Duration::from_secs(1_800_000_000));
    }
}
