//! The test of packet sizes on one candidate, made when probes are answered there and data is not acknowledged (fault I10). A probe may be padded to
//! any length; every peer answers with a short message.
//!
//! ```text
//! begin ─▶ a probe of each size, the longest first, 30 ms apart ─▶ again those longer than any that was answered ─▶ a second later: the result
//!   ▲                                                                                                                          │
//!   └───────────────────────────── a minute later, while not all sizes pass ──────────────────────────────────────────────────┘
//! ```
//! Only users see the result: the TUN's MTU stays, because path MTU discovery does not exist yet.

use core::time::Duration;
use std::vec::Vec;

use taut_base::Time;

/// Inner sizes to try below the TUN's MTU, in bytes: what is left of 1,500 on common links (PPPoE, 6in4, VXLAN, mobile networks, another tunnel), of
/// jumbo frames, and steps of 20 or 40 between. The last is what every IPv4 host accepts (RFC 791, 576 less headers).
const LADDER: [u16; 17] = [
    8_940, 4_000, 1_440, 1_420, 1_412, 1_400, 1_390, 1_380, 1_360, 1_340, 1_320, 1_300, 1_280, 1_240, 1_200, 1_100, 500,
];

/// Tries of each size, so that random loss rarely hides one.
const TRIES: usize = 2;

/// Gap between two probes, 30 ms: 1,500 bytes each are 400 kbit/s for a second.
const GAP: Duration = Duration::from_millis(30);

/// Time that answers are waited for after the last probe: longer than any round trip on earth except by satellite.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time between two tests while not all sizes pass, 1 minute: people fix links, and that takes minutes.
const AGAIN: Duration = Duration::from_secs(60);

/// The test of packet sizes on one candidate, and its last result.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sizes {
    /// Unanswered probes of the present test, and their sizes.
    asked: Vec<(u64, u16)>,
    step: usize,
    due: Option<Time>,
    /// True if all probes were sent and the result is due.
    ends: bool,
    /// The longest size that was answered in the present test.
    longest: u16,
    /// The longest size that was answered in the last test; `None` before the first.
    found: Option<u16>,
}

impl Sizes {
    /// Starts a test, unless one is running.
    pub(crate) fn begin(&mut self, now: Time) {
        if self.due.is_none() || self.is_resting() {
            *self = Self { due: Some(now), found: self.found, ..Self::default() };
        }
    }

    /// Returns true between two tests.
    fn is_resting(&self) -> bool {
        self.step == 0 && self.asked.is_empty()
    }

    /// Returns when [`Self::poll`] has something to do.
    pub(crate) fn due(&self) -> Option<Time> {
        self.due
    }

    /// Delays the next probe: the budget is used up.
    pub(crate) fn postpone(&mut self, until: Time) {
        self.due = self.due.map(|due| due.max(until));
    }

    /// Ends the test: the candidate answers no probes any more.
    pub(crate) fn stop(&mut self) {
        *self = Self { found: self.found, ..Self::default() };
    }

    /// Returns the size of the next probe if one is due; it is sent with this id. `mtu` is the TUN's.
    pub(crate) fn poll(&mut self, mtu: u16, id: u64, now: Time) -> Option<u16> {
        self.due.filter(|due| now >= *due)?;
        if self.ends {
            let again = (self.longest < mtu).then(|| now + AGAIN);
            *self = Self { found: Some(self.longest), due: again, ..Self::default() };
            return None;
        }
        let sizes = || std::iter::once(mtu).chain(LADDER.into_iter().filter(|size| *size < mtu));
        let left = (0..TRIES).flat_map(|_| sizes()).skip(self.step);
        let tried = left.enumerate().find(|(_, size)| *size > self.longest);
        let Some((skipped, size)) = tried else {
            (self.ends, self.due) = (true, Some(now + PATIENCE));
            return None;
        };
        self.step += skipped + 1;
        self.asked.push((id, size));
        self.due = Some(now + GAP);
        Some(size)
    }

    /// Takes an answer. Returns true if it answers a probe of this test.
    pub(crate) fn answer(&mut self, id: u64) -> bool {
        let Some(place) = self.asked.iter().position(|(asked, _)| *asked == id) else { return false };
        let (_, size) = self.asked.remove(place);
        self.longest = self.longest.max(size);
        true
    }

    /// Returns the longest size that passes, if longer ones do not.
    pub(crate) fn fits(&self, mtu: u16) -> Option<u16> {
        self.found.filter(|found| (1..mtu).contains(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests a path that carries packets of this length and loses each `nth` probe. Returns (longest size, probes, bytes).
    fn measured(sizes: &mut Sizes, mtu: u16, carries: u16, nth: usize, from: u64) -> (Option<u16>, usize, usize) {
        let (mut probes, mut bytes) = (0_usize, 0);
        let begin = Time::ZERO + Duration::from_secs(from);
        sizes.begin(begin);
        for millisecond in 0..10_000 {
            let now = begin + Duration::from_millis(millisecond);
            let id = millisecond + 1_000_000 * from;
            if let Some(size) = sizes.poll(mtu, id, now) {
                (probes, bytes) = (probes + 1, bytes + usize::from(size));
                if size <= carries && !probes.is_multiple_of(nth) {
                    assert!(sizes.answer(id) && !sizes.answer(id));
                }
            }
        }
        (sizes.fits(mtu), probes, bytes)
    }

    #[test]
    fn fault_i10_the_longest_packet_that_passes_is_found() {
        // Links of 1,400 and 1,300 bytes by IPv4 and IPv6, PPPoE by IPv6, 6in4.
        for (carries, fits) in
            [(1_340, 1_340), (1_320, 1_320), (1_240, 1_240), (1_220, 1_200), (1_412, 1_412), (1_405, 1_400)]
        {
            let (found, probes, bytes) = measured(&mut Sizes::default(), 1_420, carries, usize::MAX, 1);
            assert_eq!(found, Some(fits));
            assert!(probes <= 24 && bytes < 36_000, "{probes} probes, {bytes} bytes");
        }
        assert_eq!(measured(&mut Sizes::default(), 1_420, 1_340, 3, 1).0, Some(1_340), "a third is lost");
        assert_eq!(
            measured(&mut Sizes::default(), 9_000, 1_420, usize::MAX, 1).0,
            Some(1_420),
            "jumbo frames on one side"
        );
    }

    #[test]
    fn no_size_is_reported_where_all_sizes_pass_or_none() {
        assert_eq!(measured(&mut Sizes::default(), 1_420, 1_500, usize::MAX, 1), (None, 1, 1_420));
        let mut sizes = Sizes::default();
        assert_eq!(measured(&mut sizes, 1_420, 0, usize::MAX, 1).0, None);
        // The test is repeated, and its result is forgotten when all sizes pass.
        assert_eq!(measured(&mut sizes, 1_420, 1_340, usize::MAX, 100).0, Some(1_340));
        assert_eq!(sizes.due().map(|due| due > Time::ZERO + Duration::from_secs(160)), Some(true));
        assert_eq!(measured(&mut sizes, 1_420, 1_500, usize::MAX, 200).0, None);
        assert_eq!(sizes.due(), None);
    }
}
