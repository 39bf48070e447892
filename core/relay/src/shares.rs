//! The rate limits of all clients, which the threads of a relay share: the lanes of one client may arrive at different threads, and count together.
//!
//! The generic cell rate algorithm of ITU-T I.371, in bytes: one number per client, the time at which its whole burst is available again. Threads that count for the
//! same client at the same moment try again; clients do not wait for each other.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Duration;

use taut_base::{AtomicU64, Time};

/// Clients per block of memory, 1,024: a relay with few clients takes 8 KiB.
const BLOCK: usize = 1_024;

/// Least rate that is read from a text, 64 kbit/s: a slower relay is of no use, and a number without its letter was meant.
const LEAST: u64 = 64_000;

/// The rate limit of the data that one client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardRate {
    /// Bytes per second on average, frame headers included; at least 1.
    pub bytes_per_second: u64,
    /// Bytes that may exceed the average at once.
    pub burst: u64,
}

impl ForwardRate {
    /// Returns a limit of this many bits per second, with a burst of 50 ms: enough for a TCP window, and no more than a queue on the path would hold.
    pub const fn bits_per_second(bits: u64) -> Self {
        let bytes_per_second = if bits < 8 { 1 } else { bits / 8 };
        let burst = bytes_per_second / 20;
        // At least one superpacket of 64 KiB.
        Self { bytes_per_second, burst: if burst < 65_536 { 65_536 } else { burst } }
    }

    /// The limit of a relay whose operator gives none, 1 Gbit/s: what one node sends at most over the links that most hosts have.
    pub const DEFAULT: Self = Self::bits_per_second(1_000_000_000);

    fn time_of(&self, bytes: u64) -> Duration {
        let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second.max(1));
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}

/// The text is not a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRate;

impl fmt::Display for BadRate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a rate is a number of bits per second, such as 500M; the least is 64K")
    }
}

impl std::error::Error for BadRate {}

impl FromStr for ForwardRate {
    type Err = BadRate;

    /// Reads bits per second, at least 64,000: `500000000`, `500M`.
    fn from_str(text: &str) -> Result<Self, BadRate> {
        let (number, scale) = match text.as_bytes().last() {
            Some(b'K' | b'k') => (&text[..text.len() - 1], 1_000),
            Some(b'M' | b'm') => (&text[..text.len() - 1], 1_000_000),
            Some(b'G' | b'g') => (&text[..text.len() - 1], 1_000_000_000),
            _ => (text, 1),
        };
        let bits = number.parse().ok().and_then(|number: u64| number.checked_mul(scale)).filter(|bits| *bits >= LEAST);
        bits.map(Self::bits_per_second).ok_or(BadRate)
    }
}

/// The rate limits of a relay's clients.
pub struct Shares {
    rate: ForwardRate,
    /// Time of a whole burst.
    burst: Duration,
    blocks: Box<[OnceLock<Box<[AtomicU64]>>]>,
}

impl Shares {
    /// Returns the limits of at most this many clients, each with this rate.
    pub fn new(rate: ForwardRate, clients: usize) -> Self {
        Self { rate, burst: rate.time_of(rate.burst), blocks: (0..=clients / BLOCK).map(|_| OnceLock::new()).collect() }
    }

    /// Counts a frame of the client in `slot`. Returns false if the client is over its limit; the frame does not count then.
    pub(crate) fn take(&self, slot: u32, bytes: u64, now: Time) -> bool {
        let place = slot as usize;
        let Some(block) = self.blocks.get(place / BLOCK) else { return false };
        let block = block.get_or_init(|| (0..BLOCK).map(|_| AtomicU64::new(0)).collect());
        let Some(full_at) = block.get(place % BLOCK) else { return false };
        let latest = now + self.burst;
        let cost = self.rate.time_of(bytes);
        let counted = |full_at: u64| (full_at <= latest.0).then(|| (Time(full_at).max(now) + cost).0);
        // Only this number is shared, so no order with other memory is needed.
        full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, counted).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: ForwardRate = ForwardRate { bytes_per_second: 1_000, burst: 5_000 };

    #[test]
    fn rates_are_read_with_and_without_a_letter() {
        let read = |text: &str| text.parse::<ForwardRate>().map(|rate| rate.bytes_per_second);
        assert_eq!(["64000", "80k", "500M", "2G"].map(read), [Ok(8_000), Ok(10_000), Ok(62_500_000), Ok(250_000_000)]);
        for text in ["", "7", "10", "63K", "M", "-1", "1.5G", "1T", "1 G", "99999999999G", "ü"] {
            assert_eq!(read(text), Err(BadRate), "{text}");
        }
    }

    #[test]
    fn each_client_of_any_slot_has_its_own_limit() {
        let shares = Shares::new(RATE, 3_000);
        for slot in [0, 1, 1_023, 1_024, 2_999] {
            let taken = (0..100).filter(|_| shares.take(slot, 1_000, Time::ZERO)).count();
            assert_eq!(taken, 6, "the burst, and the frame that exceeds it");
        }
        assert!(!shares.take(3_072, 1, Time::ZERO), "no such client");
        assert!(!shares.take(0, 1_000, Time::ZERO + Duration::from_millis(999)));
        assert!(shares.take(0, 1_000, Time::ZERO + Duration::from_secs(1)));
    }
}
