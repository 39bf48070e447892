//! Detects on each lane that data to a peer is not acknowledged: the lane's half of suspicion (protocol.md 5.3).
//!
//! ```text
//!            data sent                    silence for max(3 round trips, 100 ms),
//!   quiet ──────────────▶ waiting ───────────────────────────────────────────────▶ suspected ──▶ told once
//!     ▲   all acknowledged   │  ▲        or no receipt for max(5 round trips, 300 ms)   │
//!     └──────────────────────┘  └── a receipt for some of it, data of the peer         │ the agent has judged
//!     └────────────────────────────────────────────────────────────────────────────────┘
//! ```
//! Evidence is a receipt; for the short limit also data of the peer, because a peer that receives nothing but data answers with one of the two. The
//! long limit finds a path that works in one direction only (fault D9): data of the peer arrives, and data to it is never acknowledged. A one-way
//! stream with receipts is never suspected, and neither is a stream that stops, because then everything is acknowledged.
//!
//! A host that was busy finds the deadline long past, while answers may be unread, or not yet sent by a peer on the same machine. It gives the path
//! as much time again, once ([`LATE_WAKEUP`]).
//!
//! While a path is suspected, copies of the data take another path, so an answer says nothing about the suspected one: only
//! [`LivenessDetector::judged`] ends the suspicion. Each lane has one detector per peer; it costs two comparisons per batch.

use core::time::Duration;

use taut_base::Time;

/// Shortest suspicious silence, 100 ms. A receipt is sent 20 ms after data, and a busy host or a Wi-Fi retry adds some tens of milliseconds; a lower
/// limit would suspect such links all the time.
pub const SILENCE: Duration = Duration::from_millis(100);

/// Suspicious silence in round trips. A receipt is due after one and a half (protocol.md 5.3); this is twice that.
const SILENCE_ROUND_TRIPS: u32 = 3;

/// Longest time with data but no receipt, 300 ms. One receipt is sent per 20 ms of data, and fifteen in a row are not lost by chance. If data is so
/// rare that only one was due, the suspicion costs three probes.
const RECEIPT_SILENCE: Duration = Duration::from_millis(300);

/// Longest time with data but no receipt, in round trips, for distant peers. A receipt is due after one and a half.
const RECEIPT_ROUND_TRIPS: u32 = 5;

/// Round-trip time that is assumed before one was measured, 200 ms: half way round the earth with some margin.
const UNMEASURED_ROUND_TRIP: Duration = Duration::from_millis(200);

/// Delay after a deadline, 50 ms, from which a wake-up counts as late: this host was not running, so the deadline says nothing about the path. Threads
/// are often late by some milliseconds.
pub(crate) const LATE_WAKEUP: Duration = Duration::from_millis(50);

/// The deadlines by which a lane expects an answer from one peer.
#[derive(Clone, Copy, Debug, Default)]
pub struct LivenessDetector {
    /// While data is unacknowledged: when the peer was last heard, or when the first of this data was sent.
    silent: Option<Time>,
    /// While data is unacknowledged: when the last receipt came, or when the first of this data was sent.
    unreceipted: Option<Time>,
    /// True after a deadline passed, until the agent has judged the path.
    suspected: bool,
    /// True if a deadline was once extended because of a late wake-up.
    was_late: bool,
    round_trip: Option<Duration>,
}

impl LivenessDetector {
    /// Data was sealed and sent; keepalives and control messages do not count.
    #[inline]
    pub fn sent(&mut self, now: Time) {
        self.silent.get_or_insert(now);
        self.unreceipted.get_or_insert(now);
    }

    /// Returns true if data is unacknowledged.
    #[inline]
    pub const fn is_waiting(&self) -> bool {
        self.silent.is_some()
    }

    /// A receipt came. `all`: it acknowledges the last packet, in the session and suite in use.
    pub fn receipted(&mut self, all: bool, now: Time) {
        self.was_late = false;
        for since in [&mut self.silent, &mut self.unreceipted] {
            *since = since.filter(|_| !all).map(|_| now);
        }
    }

    /// Data of the peer came.
    #[inline]
    pub fn heard(&mut self, now: Time) {
        self.silent = self.silent.map(|_| now);
    }

    /// Sets the round-trip time of the path in use.
    pub fn set_round_trip(&mut self, round_trip: Duration) {
        self.round_trip = Some(round_trip);
    }

    /// The agent has chosen a path, after a verdict or for another reason: waiting starts again.
    pub fn judged(&mut self) {
        (self.silent, self.unreceipted, self.suspected, self.was_late) = (None, None, false, false);
    }

    /// Returns true if the path is suspected and not yet judged: copies take another path.
    pub const fn is_suspected(&self) -> bool {
        self.suspected
    }

    /// Returns the next deadline; `None` if nothing is waited for.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.suspected {
            return None;
        }
        let round_trip = self.round_trip.unwrap_or(UNMEASURED_ROUND_TRIP);
        let silent = self.silent.map(|since| since + SILENCE.max(round_trip * SILENCE_ROUND_TRIPS));
        let unreceipted = self.unreceipted.map(|since| since + RECEIPT_SILENCE.max(round_trip * RECEIPT_ROUND_TRIPS));
        silent.into_iter().chain(unreceipted).min()
    }

    /// Returns true once per suspicion: the caller tells the agent and sends copies on the other path.
    pub fn handle_timeout(&mut self, now: Time) -> bool {
        let Some(due) = self.poll_timeout().filter(|due| now >= *due) else { return false };
        if !self.was_late && now >= due + LATE_WAKEUP {
            self.was_late = true;
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

    fn detector(round_trip: u64) -> LivenessDetector {
        let mut detector = LivenessDetector::default();
        detector.set_round_trip(Duration::from_millis(round_trip));
        detector
    }

    /// Returns when the path becomes suspected, checked each millisecond before `end`.
    fn suspected(
        detector: &mut LivenessDetector,
        mut each: impl FnMut(&mut LivenessDetector, u64),
        end: u64,
    ) -> Option<u64> {
        (0..end).find(|now| {
            each(detector, *now);
            detector.handle_timeout(at(*now))
        })
    }

    #[test]
    fn silence_after_data_is_suspected_once() {
        let mut near = detector(10);
        near.sent(at(0));
        near.sent(at(50));
        assert_eq!(suspected(&mut near, |_, _| {}, 1_000), Some(100));
        assert!(near.is_suspected());
        near.receipted(true, at(150));
        assert_eq!(
            (near.is_suspected(), near.poll_timeout()),
            (true, None),
            "the receipt may have come by the other way"
        );
        near.judged();
        assert_eq!((near.is_suspected(), near.poll_timeout()), (false, None));
        let mut far = detector(200);
        far.sent(at(0));
        assert_eq!(suspected(&mut far, |_, _| {}, 1_000), Some(600));
    }

    #[test]
    fn a_late_wake_up_extends_the_deadline_once() {
        let mut detector = detector(10);
        detector.sent(at(0));
        assert!(!detector.handle_timeout(at(150)), "an answer may be unread");
        assert_eq!(detector.poll_timeout(), Some(at(250)));
        assert!(detector.handle_timeout(at(300)), "a deadline is extended only once");
        detector.judged();
        detector.sent(at(400));
        assert!(detector.handle_timeout(at(549)), "too little delay for an extension");
        detector.judged();
        detector.sent(at(600));
        assert!(!detector.handle_timeout(at(750)));
        detector.receipted(false, at(760));
        assert!(!detector.handle_timeout(at(910)), "the peer was heard since, and the extension is available again");
    }

    #[test]
    fn one_way_streams_with_receipts_are_never_suspected() {
        let mut detector = detector(40);
        let flow = |detector: &mut LivenessDetector, now: u64| {
            detector.sent(at(now));
            if now >= 60 && now.is_multiple_of(20) {
                detector.receipted(false, at(now));
            }
        };
        assert_eq!(suspected(&mut detector, flow, 10_000), None);
        detector.receipted(true, at(10_060));
        assert_eq!(detector.poll_timeout(), None, "a stream that stopped");
    }

    #[test]
    fn fault_d9_data_without_receipts_is_suspected_later() {
        let mut detector = detector(10);
        let flow = |detector: &mut LivenessDetector, now: u64| {
            detector.sent(at(now));
            detector.heard(at(now));
        };
        assert_eq!(suspected(&mut detector, flow, 10_000), Some(300));
    }

    #[test]
    fn without_data_nothing_is_waited_for() {
        let mut detector = detector(10);
        detector.heard(at(0));
        detector.receipted(false, at(1));
        assert_eq!(detector.poll_timeout(), None);
        assert!(!detector.handle_timeout(at(1_000_000)));
    }
}
