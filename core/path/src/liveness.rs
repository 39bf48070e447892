//! The lane's half of suspicion (protocol.md 5.3): has what went to a peer been heard of?
//!
//! ```text
//!            data sent                    silence for max(3 round trips, 100 ms),
//!   quiet ──────────────▶ waiting ───────────────────────────────────────────────▶ suspected ──▶ told once
//!     ▲   all is receipted   │  ▲        or no receipt for max(5 round trips, 300 ms)   │
//!     └──────────────────────┘  └── a receipt for some of it, data of the peer         │ the agent has judged
//!     └────────────────────────────────────────────────────────────────────────────────┘
//! ```
//! Evidence is a receipt, and for the short limit data of the peer as well: who is sent nothing but data answers soon with one of them. The long limit is
//! for the path that works in one direction only (fault D9): the peer's data comes, and ours is never receipted. A stream in one direction whose receiver
//! sends receipts is never suspected; neither is one that stops, because then everything is receipted.
//!
//! A host that was busy for long with something else finds its deadline long over, and the answers perhaps not yet read, or not yet sent by a peer on the
//! same machine. Once it gives the path as much time again ([`AWAY`]).
//!
//! While a path is suspected, the same data goes by another one as well, so that what is heard then says nothing about the path: only
//! [`LivenessDetector::judged`] ends it. One of these belongs to each peer on each lane of ours; it costs two comparisons per batch.

use core::time::Duration;

use taut_base::Time;

/// The shortest silence that is suspicious. A receipt is sent 20 ms after data, and a busy host or a Wi-Fi that retries is late by some tens of
/// milliseconds; below this, suspicion would be the normal state of such links.
pub const SILENCE: Duration = Duration::from_millis(100);

/// A receipt is due after one round trip and half another (protocol.md 5.3); twice that is suspicious.
const ROUND_TRIPS: u32 = 3;

/// How long data may come while no receipt does. A receipt goes with every 20 ms of data: fifteen in a row are not lost by chance. Where data is so rare
/// that it is one receipt, suspicion costs three probes.
const RECEIPT: Duration = Duration::from_millis(300);

/// The same in round trips, for the far away: a receipt is due after one and a half.
const RECEIPT_ROUND_TRIPS: u32 = 5;

/// Taken while nothing was measured: half way round the earth, and some.
const UNKNOWN: Duration = Duration::from_millis(200);

/// A deadline that is looked at so much later than it was says nothing yet: we were not there. Threads are late by some milliseconds all the time.
pub(crate) const AWAY: Duration = Duration::from_millis(50);

/// What a lane waits for from one peer.
#[derive(Clone, Copy, Debug, Default)]
pub struct LivenessDetector {
    /// Something is unacknowledged, and this is when anything of the peer was heard last, or when the first of it was sent.
    silent: Option<Time>,
    /// The same for receipts alone.
    unreceipted: Option<Time>,
    /// It has been too long, and the agent has not judged yet.
    suspected: bool,
    /// We were away once when it was to be suspected.
    excused: bool,
    round_trip: Option<Duration>,
}

impl LivenessDetector {
    /// Data was sealed and sent; keepalives and control messages are no data.
    #[inline]
    pub fn sent(&mut self, now: Time) {
        self.silent.get_or_insert(now);
        self.unreceipted.get_or_insert(now);
    }

    /// Whether something is waited for.
    #[inline]
    pub const fn is_waiting(&self) -> bool {
        self.silent.is_some()
    }

    /// A receipt came; `all` says whether it names the last that was sent, in the session and suite that are in use.
    pub fn receipted(&mut self, all: bool, now: Time) {
        self.excused = false;
        for since in [&mut self.silent, &mut self.unreceipted] {
            *since = since.filter(|_| !all).map(|_| now);
        }
    }

    /// Data of the peer came.
    #[inline]
    pub fn heard(&mut self, now: Time) {
        self.silent = self.silent.map(|_| now);
    }

    /// How long a packet takes to the peer and back, on the path in use.
    pub fn set_round_trip(&mut self, round_trip: Duration) {
        self.round_trip = Some(round_trip);
    }

    /// The agent says by which way to send from now on, having judged or for another reason: all begins anew.
    pub fn judged(&mut self) {
        (self.silent, self.unreceipted, self.suspected, self.excused) = (None, None, false, false);
    }

    /// Whether the path is suspected and not yet judged: data goes by another one as well.
    pub const fn is_suspected(&self) -> bool {
        self.suspected
    }

    /// When to look again; `None` while there is nothing to wait for.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.suspected {
            return None;
        }
        let round_trip = self.round_trip.unwrap_or(UNKNOWN);
        let silent = self.silent.map(|since| since + SILENCE.max(round_trip * ROUND_TRIPS));
        let unreceipted = self.unreceipted.map(|since| since + RECEIPT.max(round_trip * RECEIPT_ROUND_TRIPS));
        silent.into_iter().chain(unreceipted).min()
    }

    /// True once for each suspicion: tell the agent, and send on the other way as well.
    pub fn handle_timeout(&mut self, now: Time) -> bool {
        let Some(due) = self.poll_timeout().filter(|due| now >= *due) else { return false };
        if !self.excused && now >= due + AWAY {
            self.excused = true;
            for since in [&mut self.silent, &mut self.unreceipted] {
                *since = since.map(|_| now);
            }
            return false;
        }
        self.suspected = true;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Duration::from_millis(milliseconds)
    }

    fn watch(round_trip: u64) -> LivenessDetector {
        let mut watch = LivenessDetector::default();
        watch.set_round_trip(Duration::from_millis(round_trip));
        watch
    }

    /// When it becomes suspicious, if it does before `end`, looked at each millisecond.
    fn suspected(
        watch: &mut LivenessDetector,
        mut each: impl FnMut(&mut LivenessDetector, u64),
        end: u64,
    ) -> Option<u64> {
        (0..end).find(|now| {
            each(watch, *now);
            watch.handle_timeout(at(*now))
        })
    }

    #[test]
    fn silence_after_data_is_suspected_once() {
        let mut near = watch(10);
        near.sent(at(0));
        near.sent(at(50));
        assert_eq!(suspected(&mut near, |_, _| {}, 1_000), Some(100));
        assert!(near.is_suspected());
        near.receipted(true, at(150));
        assert_eq!((near.is_suspected(), near.poll_timeout()), (true, None), "it may have come by the other way");
        near.judged();
        assert_eq!((near.is_suspected(), near.poll_timeout()), (false, None));
        let mut far = watch(200);
        far.sent(at(0));
        assert_eq!(suspected(&mut far, |_, _| {}, 1_000), Some(600));
    }

    #[test]
    fn who_was_away_gives_as_much_time_again_but_once() {
        let mut watch = watch(10);
        watch.sent(at(0));
        assert!(!watch.handle_timeout(at(150)), "whoever answered may not have been heard");
        assert_eq!(watch.poll_timeout(), Some(at(250)));
        assert!(watch.handle_timeout(at(300)), "who is always late has to judge some time");
        watch.judged();
        watch.sent(at(400));
        assert!(watch.handle_timeout(at(549)), "not late enough");
        watch.judged();
        watch.sent(at(600));
        assert!(!watch.handle_timeout(at(750)));
        watch.receipted(false, at(760));
        assert!(!watch.handle_timeout(at(910)), "it was heard since, and begins anew");
    }

    #[test]
    fn one_way_streams_with_receipts_never_look_dead() {
        let mut watch = watch(40);
        let flow = |watch: &mut LivenessDetector, now: u64| {
            watch.sent(at(now));
            if now >= 60 && now.is_multiple_of(20) {
                watch.receipted(false, at(now));
            }
        };
        assert_eq!(suspected(&mut watch, flow, 10_000), None);
        watch.receipted(true, at(10_060));
        assert_eq!(watch.poll_timeout(), None, "a stream that stopped");
    }

    #[test]
    fn fault_d9_data_without_receipts_is_suspected_later() {
        let mut watch = watch(10);
        let flow = |watch: &mut LivenessDetector, now: u64| {
            watch.sent(at(now));
            watch.heard(at(now));
        };
        assert_eq!(suspected(&mut watch, flow, 10_000), Some(300));
    }

    #[test]
    fn nothing_sent_is_nothing_to_wait_for() {
        let mut watch = watch(10);
        watch.heard(at(0));
        watch.receipted(false, at(1));
        assert_eq!(watch.poll_timeout(), None);
        assert!(!watch.handle_timeout(at(1_000_000)));
    }
}
