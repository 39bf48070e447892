//! Measures how long a packet may be on one way, once probes are answered there and data is not (fault I10). A probe may be padded to any length, and every
//! peer answers it by a short message.
//!
//! ```text
//! begin ─▶ a probe of each size, the longest first, 30 ms apart ─▶ once more those longer than any that was answered ─▶ a second later: the longest
//!   ▲                                                                                                                          │
//!   └───────────────────────────── a minute later, while not all sizes pass ──────────────────────────────────────────────────┘
//! ```
//! The result is for people only: the TUN's MTU stays, because path MTU discovery does not exist yet.

use core::time::Duration;
use std::vec::Vec;

use taut_base::Time;

/// Inner sizes that are tried below the TUN's MTU, in bytes: what is left of 1,500 on common links (PPPoE, 6in4, VXLAN, mobile networks, another tunnel), of
/// jumbo frames, and steps of 20 or 40 between. The last is what any IPv4 host has to take in (RFC 791, 576 less headers).
const LADDER: [u16; 17] = [
    8_940, 4_000, 1_440, 1_420, 1_412, 1_400, 1_390, 1_380, 1_360, 1_340, 1_320, 1_300, 1_280, 1_240, 1_200, 1_100, 500,
];

/// Times that each size is tried, so that loss by chance rarely hides one.
const TRIES: usize = 2;

/// Between two probes: 1,500 bytes each are 400 kbit/s for a second.
const GAP: Duration = Duration::from_millis(30);

/// How long answers are waited for after the last probe: any round trip on earth that is not by satellite.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time between two measurements while not all sizes pass: people fix links, and that takes minutes.
const AGAIN: Duration = Duration::from_secs(60);

/// The packet sizes that one way carries, as far as they were measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sizes {
    /// Probes of the present measurement that were not answered, and their sizes.
    asked: Vec<(u64, u16)>,
    step: usize,
    due: Option<Time>,
    /// All probes have left; a verdict is due.
    ends: bool,
    /// The longest that was answered in the present measurement.
    longest: u16,
    /// The longest that was answered in the last measurement; `None` before the first.
    found: Option<u16>,
}

impl Sizes {
    /// Starts a measurement, unless one is under way.
    pub(crate) fn begin(&mut self, now: Time) {
        if self.due.is_none() || self.is_resting() {
            *self = Self { due: Some(now), found: self.found, ..Self::default() };
        }
    }

    /// Between two measurements.
    fn is_resting(&self) -> bool {
        self.step == 0 && self.asked.is_empty()
    }

    /// When [`Self::poll`] has something to do.
    pub(crate) fn due(&self) -> Option<Time> {
        self.due
    }

    /// Delays the next probe until then: the budget is used up.
    pub(crate) fn postpone(&mut self, until: Time) {
        self.due = self.due.map(|due| due.max(until));
    }

    /// Ends the measurement: the way answers no probes any more.
    pub(crate) fn stop(&mut self) {
        *self = Self { found: self.found, ..Self::default() };
    }

    /// Returns the size of the next probe if one is due; it leaves under this id. `mtu` is the TUN's.
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

    /// Notes an answer. Returns true if it answers one of these probes.
    pub(crate) fn answer(&mut self, id: u64) -> bool {
        let Some(place) = self.asked.iter().position(|(asked, _)| *asked == id) else { return false };
        let (_, size) = self.asked.remove(place);
        self.longest = self.longest.max(size);
        true
    }

    /// Returns the longest packet that passes, if some pass and longer ones do not.
    pub(crate) fn fits(&self, mtu: u16) -> Option<u16> {
        self.found.filter(|found| (1..mtu).contains(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measures a way that carries packets of this length and loses each `nth` probe: (what fits, probes, bytes).
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
    fn where_all_passes_or_nothing_there_is_no_size_to_name() {
        assert_eq!(measured(&mut Sizes::default(), 1_420, 1_500, usize::MAX, 1), (None, 1, 1_420));
        let mut sizes = Sizes::default();
        assert_eq!(measured(&mut sizes, 1_420, 0, usize::MAX, 1).0, None);
        // It is measured again, and forgotten when the link carries all sizes.
        assert_eq!(measured(&mut sizes, 1_420, 1_340, usize::MAX, 100).0, Some(1_340));
        assert_eq!(sizes.due().map(|due| due > Time::ZERO + Duration::from_secs(160)), Some(true));
        assert_eq!(measured(&mut sizes, 1_420, 1_500, usize::MAX, 200).0, None);
        assert_eq!(sizes.due(), None);
    }
}
