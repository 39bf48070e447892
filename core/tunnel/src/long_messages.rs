//! Long messages of a pair that do not arrive, although shorter ones do: the packet limit of the path is too high (docs/internals/mtu.md).
//!
//! A receipt tells the length of the longest message that arrived lately. The sender keeps the three longest of its messages for which no message of that length is
//! known to have arrived:
//!
//! ```text
//!            a longer message than one of the three     a receipt for a message behind all three
//!   0 … 3 ─────────────────────────────────────────▶ 3 ──────────────────────────────────────────▶ lost, and counting starts again
//!     ▲                                              │  and nothing as long as they has arrived
//!     └──────────────────────────────────────────────┘ a receipt tells a length: messages up to that length are forgotten
//! ```
//! So lost packets of full size are noticed even while another flow's packets arrive that are long, but shorter. Random loss rarely takes three messages in a row, and a
//! false report costs one probe.

use taut_base::SAFE_PACKET;
use taut_wire::wireguard::PADDING;

/// Length in bytes up to which a padded packet is not long, 1,008: [`SAFE_PACKET`] with its padding. Sender and receiver see the padded packet only.
const LONGEST_SHORT: u16 = SAFE_PACKET.next_multiple_of(PADDING as u16);

/// Long messages that have to be missing, 3.
const MISSING: usize = 3;

/// The longest messages that were sealed, without those whose length is known to arrive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentLong {
    /// Padded length and counter of each; the first `count` are in use.
    longest: [(u16, u64); MISSING],
    count: usize,
    /// Length above which a message is noted.
    above: u16,
    /// Counter of the peer's latest receipt.
    receipt: u64,
}

impl Default for SentLong {
    fn default() -> Self {
        Self { longest: [(0, 0); MISSING], count: 0, above: LONGEST_SHORT, receipt: 0 }
    }
}

impl SentLong {
    /// Notes that a message with a padded packet of `padded` bytes was sealed with this counter.
    #[inline]
    pub(crate) fn sealed(&mut self, padded: usize, counter: u64) {
        if padded > usize::from(self.above) {
            self.note(length(padded), counter);
        }
    }

    fn note(&mut self, padded: u16, counter: u64) {
        let place = match self.count {
            MISSING => (0..MISSING).min_by_key(|place| self.longest[*place].0).unwrap_or_default(),
            free => {
                self.count += 1;
                free
            }
        };
        self.longest[place] = (padded, counter);
        self.set_bound();
    }

    /// Takes a receipt for a counter that was sealed, with the length of the longest message that arrived lately. Returns true if long messages are lost.
    pub(crate) fn receipted(&mut self, counter: u64, arrived: u16) -> bool {
        // An overtaken receipt tells an old length.
        if counter < self.receipt {
            return false;
        }
        self.receipt = counter;
        let mut kept = 0;
        for place in 0..self.count {
            if self.longest[place].0 > arrived {
                self.longest[kept] = self.longest[place];
                kept += 1;
            }
        }
        let lost = kept == MISSING && self.longest.iter().all(|(_, sent)| *sent < counter);
        self.count = if lost { 0 } else { kept };
        self.set_bound();
        lost
    }

    fn set_bound(&mut self) {
        let shortest = self.longest.iter().map(|(padded, _)| *padded).min();
        self.above = shortest.filter(|_| self.count == MISSING).unwrap_or(LONGEST_SHORT);
    }
}

/// The length of the longest message that arrived lately, for receipts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReceivedLong {
    /// Padded length of the longest since the last receipt.
    since: u16,
    /// And between the two receipts before, so that a lost receipt hides nothing.
    before: u16,
}

impl ReceivedLong {
    /// Notes an authentic message with a padded packet of `padded` bytes.
    #[inline]
    pub(crate) fn received(&mut self, padded: usize) {
        self.since = self.since.max(length(padded));
    }

    /// Returns the length for the next receipt.
    pub(crate) fn take(&mut self) -> u16 {
        let longest = self.since.max(self.before);
        (self.before, self.since) = (self.since, 0);
        longest
    }
}

/// Returns the length as in receipts. No datagram is longer.
fn length(padded: usize) -> u16 {
    u16::try_from(padded).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(messages: &[(usize, u64)]) -> SentLong {
        let mut sent = SentLong::default();
        messages.iter().for_each(|(padded, counter)| sent.sealed(*padded, *counter));
        sent
    }

    #[test]
    fn three_long_messages_without_a_trace_are_lost() {
        let mut sent = sent(&[(1_440, 5), (1_440, 6), (1_440, 7)]);
        assert!(!sent.receipted(6, 100), "the third may be on its way");
        assert!(sent.receipted(8, 100));
        assert!(!sent.receipted(9, 100), "reported once");
        sent.sealed(1_440, 10);
        sent.sealed(1_440, 11);
        assert!(!sent.receipted(20, 100), "two are lost by chance");
        sent.sealed(1_440, 21);
        assert!(sent.receipted(22, 1_008));
    }

    #[test]
    fn a_long_message_that_arrives_starts_the_count_again() {
        let mut sent = sent(&[(1_440, 0), (1_440, 1), (1_440, 2)]);
        assert!(!sent.receipted(3, 1_440));
        (4..7).for_each(|counter| sent.sealed(1_440, counter));
        assert!(!sent.receipted(2, 0), "an overtaken receipt is no news");
        assert!(!sent.receipted(9, 9_000));
        (10..13).for_each(|counter| sent.sealed(1_440, counter));
        assert!(sent.receipted(13, 0));
    }

    #[test]
    fn fault_i1_the_longest_messages_are_missed_while_shorter_long_ones_arrive() {
        let mut sent = SentLong::default();
        let mut lost = None;
        for round in 0..20 {
            // One flow whose packets pass, and one whose packets do not.
            (0..10).for_each(|number| sent.sealed(1_264, 11 * round + number));
            sent.sealed(1_440, 11 * round + 10);
            if sent.receipted(11 * (round + 1), 1_264) {
                lost = lost.or(Some(round));
            }
        }
        assert_eq!(lost, Some(2), "with the third");
    }

    #[test]
    fn shorter_long_messages_take_no_place_of_longer_ones() {
        let mut sent = sent(&[(1_100, 1), (1_440, 2), (1_200, 3), (1_300, 4), (1_500, 5), (1_050, 6)]);
        assert!(!sent.receipted(7, 1_300));
        sent.sealed(1_400, 8);
        assert!(sent.receipted(9, 1_300));
    }

    #[test]
    fn a_message_is_long_by_its_padded_length() {
        assert!(!sent(&[(0, 1), (1_008, 2), (1_008, 3), (1_008, 4)]).receipted(5, 0));
        assert!(sent(&[(1_009, 1), (65_535, 2), (70_000, 3)]).receipted(4, 0));
    }

    #[test]
    fn the_longest_of_two_receipts_is_told() {
        let mut received = ReceivedLong::default();
        assert_eq!(received.take(), 0);
        [100, 1_440, 200].into_iter().for_each(|padded| received.received(padded));
        assert_eq!(received.take(), 1_440);
        received.received(300);
        assert_eq!(received.take(), 1_440, "the receipt before may be lost");
        assert_eq!((received.take(), received.take()), (300, 0));
        received.received(100_000);
        assert_eq!(received.take(), u16::MAX);
    }
}
