//! A rate limiter with its queue.

use std::collections::VecDeque;
use std::time::Duration;

use taut_base::Time;

use crate::codel::Codel;

/// A rate limiter with its queue. Its state depends only on the arrival times of frames, not on when it is polled.
pub(crate) struct Bottleneck<F> {
    /// Bits per second.
    rate: u64,
    /// Maximum number of bytes in the queue, including the frame that is being sent.
    room: usize,
    codel: Option<Codel>,
    /// Waiting frames, each with its arrival time and length.
    waiting: VecDeque<(Time, usize, F)>,
    /// The frame that is being sent, and the time of its last bit.
    sending: Option<(Time, usize, F)>,
    bytes: usize,
    /// End of the last frame.
    free: Time,
}

/// A frame that leaves the queue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Passed<F> {
    /// A frame whose last bit was sent at this time.
    Sent(Time, F),
    /// CoDel dropped it.
    Dropped(F),
}

impl<F> Bottleneck<F> {
    /// Returns a limiter of `rate` bits per second with a queue of this many bytes, from which CoDel drops if `codel` is set.
    pub(crate) fn new(rate: u64, room: usize, codel: bool) -> Self {
        let codel = codel.then(Codel::default);
        Self { rate, room, codel, waiting: VecDeque::new(), sending: None, bytes: 0, free: Time::ZERO }
    }

    /// Adds a frame, or returns it if there is no room. Frames that left before `now` must have been [polled](Self::poll).
    pub(crate) fn offer(&mut self, frame: F, length: usize, now: Time) -> Result<(), F> {
        if self.bytes + length > self.room {
            return Err(frame);
        }
        self.bytes += length;
        self.waiting.push_back((now, length, frame));
        Ok(())
    }

    /// Returns the next time at which [`Self::poll`] returns a frame, after it returned none.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.sending.as_ref().map(|(when, ..)| *when)
    }

    /// Returns the next frame that left by `now`.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Passed<F>> {
        if self.sending.is_none() {
            let (came, length, frame) = self.waiting.pop_front()?;
            let start = self.free.max(came);
            let behind = self.bytes - length;
            if self.codel.as_mut().is_some_and(|codel| codel.drops(start.since(came), behind, start)) {
                self.bytes = behind;
                return Some(Passed::Dropped(frame));
            }
            self.free = start + self.takes(length);
            self.sending = Some((self.free, length, frame));
        }
        let (when, length, frame) = self.sending.take_if(|(when, ..)| *when <= now)?;
        self.bytes -= length;
        Some(Passed::Sent(when, frame))
    }

    fn takes(&self, length: usize) -> Duration {
        let nanoseconds = (length as u128) * 8 * 1_000_000_000 / u128::from(self.rate.max(1));
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(microseconds: u64) -> Time {
        Time::ZERO + Duration::from_micros(microseconds)
    }

    #[test]
    fn frames_leave_at_the_rate_and_a_frame_without_room_is_returned() {
        // 1,000 bytes take 80 microseconds.
        let mut queue = Bottleneck::new(100_000_000, 2_500, false);
        assert_eq!(queue.offer('a', 1_000, at(0)), Ok(()));
        assert_eq!(queue.offer('b', 1_000, at(10)), Ok(()));
        assert_eq!(queue.offer('c', 501, at(10)), Err('c'));
        assert_eq!(queue.poll(at(79)), None);
        assert_eq!(queue.poll_timeout(), Some(at(80)));
        // A late poll returns the same frames with the same times.
        assert_eq!(queue.poll(at(500)), Some(Passed::Sent(at(80), 'a')));
        assert_eq!(queue.poll(at(500)), Some(Passed::Sent(at(160), 'b')));
        assert_eq!((queue.poll(at(500)), queue.poll_timeout()), (None, None));
        assert_eq!(queue.offer('d', 2_500, at(500)), Ok(()));
        assert_eq!(queue.poll(at(699)), None);
        assert_eq!(queue.poll(at(700)), Some(Passed::Sent(at(700), 'd')));
    }

    #[test]
    fn codel_keeps_a_deep_queue_short() {
        // A sender without congestion control sends a ninth more than the rate, for four seconds.
        let longest = |codel| {
            let mut queue = Bottleneck::new(12_000_000, 10_000_000, codel);
            let mut longest = Duration::ZERO;
            for number in 0..4_000_u64 {
                let now = at(number * 900);
                while let Some(passed) = queue.poll(now) {
                    if let (Passed::Sent(when, came), true) = (passed, number > 3_000) {
                        longest = longest.max(when.since(came));
                    }
                }
                queue.offer(now, 1_500, now).unwrap();
            }
            longest
        };
        assert!(longest(false) > Duration::from_millis(350));
        assert!(longest(true) < longest(false) / 2, "{:?}", longest(true));
    }
}
