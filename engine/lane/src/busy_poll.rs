//! Before a lane sleeps it looks again, if that pays.
//!
//! To be woken costs more than to carry a packet: on a virtual machine whose core went idle, some ten microseconds each time. A stream that goes as fast as
//! it can has its lanes sleep and be woken thousands of times a second, for pauses that are hardly longer than that. So a lane that carried packets
//! for a good part of its time ([`BUSY`]) looks again for [`SHORT`] before it sleeps. That takes at most twice as much as carrying them does, and nothing at
//! all where little goes.
//!
//! In low-latency mode a lane that carried a packet does not sleep for [`LONG`] but looks again and again, so that no wake-up stands in the way of anything
//! that comes at least that often (an echo request through the tunnel wakes a lane four times), for up to a core of processor time meanwhile.
//!
//! ```text
//!            a packet came (low-latency mode), or it was busy           none came for LONG, or SHORT
//!   sleeps ──────────────────────────────────────────────────▶ lingers ──────────────────────────────▶ sleeps
//!                                                                │ gave way, and had to wait too long
//!                                                                └────────────────────────────────────▶ sleeps, every time for a while
//! ```
//! Between two looks it gives way to whoever else wants its core. A program that computes takes a whole turn of the scheduler then, milliseconds,
//! while a lane that sleeps is put before it on waking. Hence the last arrow: at most one such turn per [`AVOID`] is lost. And where a lane shares its core
//! with the program whose stream it carries, there is no pause to bridge and no core that would fall asleep: it sleeps when it has seen that [`OFTEN`] enough.
//!
//! There is one more occasion to give way, also for a lane that never lingers: datagrams of UDP were written, and the socket that they are for holds few of
//! them. Whoever reads there may want this core. TCP waits for its readers by itself. A program that computes is remembered for both occasions.

use std::time::Duration;

use taut_base::Time;

/// How long a lane lingers after a packet: longer than the pauses of calls and games, which send 50 times a second.
const LONG: Duration = Duration::from_millis(50);
/// How long a busy lane lingers: longer than most pauses inside a stream (by measurement, docs/performance.md).
const SHORT: Duration = Duration::from_micros(300);
/// A lane is busy that carried packets for one part in so many of its time. Each end of a stream at full speed does so for more than half.
const BUSY: u32 = 3;
/// Over about so long it is judged.
const SPAN: Duration = Duration::from_millis(4);
/// A program that has a packet to deal with gives the core back sooner than this; one that computes keeps it for its turn, 1.4 ms or more.
const CROWDED: Duration = Duration::from_millis(1);
/// For so long nothing is given to it any more.
const AVOID: Duration = Duration::from_millis(100);
/// To be without its core for so long tells a busy lane that the core has something to do without its lingering.
const SHARED: Duration = Duration::from_micros(100);
/// So often in a row; on a core that is not always shared it is soon back now and then.
const OFTEN: u32 = 8;
/// For so long it does without then: hundreds of pauses, so that those few cost little.
const DO_WITHOUT: Duration = Duration::from_millis(20);

/// One lane's habits.
#[derive(Debug)]
pub(crate) struct BusyPoll {
    /// In low-latency mode.
    on: bool,
    /// Until when it looks again.
    until: Time,
    /// Until when somebody who computes is taken to have the core.
    crowded: Time,
    /// Until when it does not, because it shares its core.
    sleeps: Time,
    /// How often in a row it was without its core for [`SHARED`].
    shared: u32,
    /// When its last turn began, or its last wait.
    since: Time,
    /// Time of late, and what of it went by in turns.
    span: Duration,
    busy: Duration,
}

impl BusyPoll {
    /// For a lane that has carried nothing yet; `on` in low-latency mode.
    pub(crate) fn new(on: bool) -> Self {
        let (span, busy) = (Duration::ZERO, Duration::ZERO);
        Self {
            on,
            until: Time::ZERO,
            crowded: Time::ZERO,
            sleeps: Time::ZERO,
            shared: 0,
            since: Time::ZERO,
            span,
            busy,
        }
    }

    /// A turn begins, after a wait.
    pub(crate) fn woke(&mut self, now: Time) {
        let pause = now.since(self.since);
        self.since = now;
        if pause >= SPAN {
            (self.span, self.busy) = (SPAN, Duration::ZERO);
            return;
        }
        self.span += pause;
        if self.span >= SPAN {
            (self.span, self.busy) = (self.span / 2, self.busy / 2);
        }
    }

    /// The turn is over, and it waits.
    pub(crate) fn waits(&mut self, now: Time) {
        let turn = now.since(self.since).min(SPAN);
        (self.span, self.busy, self.since) = (self.span + turn, self.busy + turn, now);
        if self.busy * BUSY >= self.span {
            self.until = self.until.max(now + SHORT);
        }
    }

    /// Packets came, or the host had some.
    pub(crate) fn packets(&mut self, now: Time) {
        if self.on {
            self.until = now + LONG;
        }
    }

    /// Whether to look again instead of sleeping.
    pub(crate) fn lasts(&self, now: Time) -> bool {
        now < self.until && now >= self.crowded.max(self.sleeps)
    }

    /// Whether to let others have the core for a moment where that is for their good: not while one of them keeps it.
    pub(crate) fn may_give_way(&self, now: Time) -> bool {
        now >= self.crowded
    }

    /// The lane gave way, to busy_poll or so that others can read, and has its core back after `away`.
    pub(crate) fn gave_way(&mut self, away: Duration, now: Time) {
        if away >= CROWDED {
            self.crowded = now + AVOID;
        }
    }

    /// As [`Self::gave_way`], with nothing to do itself: whether its core has.
    pub(crate) fn idled(&mut self, away: Duration, now: Time) {
        self.gave_way(away, now);
        if self.on || away >= CROWDED {
            return;
        }
        self.shared = if away >= SHARED { self.shared + 1 } else { 0 };
        if self.shared >= OFTEN {
            (self.shared, self.sleeps) = (0, now + DO_WITHOUT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time(1_000_000_000);
    const INSTANT: Duration = Duration::from_nanos(1);

    #[test]
    fn a_lane_lingers_after_packets_and_not_for_ever() {
        let mut busy_poll = BusyPoll::new(true);
        assert!(!busy_poll.lasts(START), "nothing came yet");
        busy_poll.packets(START);
        assert!(busy_poll.lasts(START + (LONG - INSTANT)) && !busy_poll.lasts(START + LONG));
        busy_poll.packets(START + LONG);
        assert!(busy_poll.lasts(START + LONG));
    }

    /// Turns of so many microseconds with pauses between them; whether it lingers in the last one, and for how long at most.
    fn habit(turn: u64, pause: u64) -> Option<Duration> {
        let mut busy_poll = BusyPoll::new(false);
        let (mut now, mut waits) = (START, START);
        for _ in 0..1_000 {
            busy_poll.woke(now);
            busy_poll.packets(now);
            waits = now + Duration::from_micros(turn);
            busy_poll.waits(waits);
            now = waits + Duration::from_micros(pause);
        }
        busy_poll.lasts(waits).then(|| busy_poll.until.since(waits))
    }

    #[test]
    fn without_the_mode_a_lane_lingers_that_is_busy_and_not_for_long() {
        assert_eq!(habit(60, 40), Some(SHORT));
        assert_eq!(habit(35, 65), Some(SHORT));
        assert_eq!(habit(30, 70), None, "it has time to sleep");
        assert_eq!(habit(400, 9_600), None, "now and then much at once");
        assert_eq!(habit(5, 20_000), None);
    }

    #[test]
    fn a_lane_that_was_busy_sleeps_when_nothing_comes() {
        let mut busy_poll = BusyPoll::new(false);
        busy_poll.woke(START);
        let end = START + Duration::from_millis(3);
        busy_poll.waits(end);
        assert!(busy_poll.lasts(end) && !busy_poll.lasts(end + SHORT));
        // A timer a second later.
        let later = end + Duration::from_secs(1);
        busy_poll.woke(later);
        busy_poll.waits(later + Duration::from_micros(5));
        assert!(!busy_poll.lasts(later + Duration::from_micros(5)));
    }

    #[test]
    fn a_core_that_others_keep_is_avoided_for_a_while() {
        let mut busy_poll = BusyPoll::new(true);
        busy_poll.packets(START);
        busy_poll.idled(CROWDED - INSTANT, START);
        assert!(busy_poll.lasts(START));
        busy_poll.idled(CROWDED, START);
        let again = START + AVOID;
        busy_poll.packets(again);
        assert!(!busy_poll.lasts(START + (AVOID - INSTANT)) && busy_poll.lasts(again));
        assert!(
            !busy_poll.may_give_way(START + (AVOID - INSTANT)) && busy_poll.may_give_way(again),
            "nor for anybody's good"
        );
    }

    #[test]
    fn nobody_is_let_read_first_while_somebody_computes() {
        let mut busy_poll = BusyPoll::new(true);
        assert!(busy_poll.may_give_way(START));
        busy_poll.gave_way(CROWDED - INSTANT, START);
        assert!(busy_poll.may_give_way(START));
        busy_poll.gave_way(CROWDED, START);
        assert!(!busy_poll.may_give_way(START + (AVOID - INSTANT)) && busy_poll.may_give_way(START + AVOID));
        busy_poll.packets(START);
        assert!(!busy_poll.lasts(START), "nor lingers the lane");
    }

    #[test]
    fn a_busy_lane_does_without_where_it_shares_its_core() {
        let mut busy_poll = BusyPoll::new(false);
        let at = |now: Time, busy_poll: &mut BusyPoll| {
            busy_poll.woke(now);
            let waits = now + Duration::from_millis(3);
            busy_poll.waits(waits);
            busy_poll.lasts(waits)
        };
        assert!(at(START, &mut busy_poll));
        let shared = START + Duration::from_millis(3);
        for away in
            [SHARED; OFTEN as usize - 1].into_iter().chain([SHARED - INSTANT]).chain([SHARED; OFTEN as usize - 1])
        {
            busy_poll.idled(away, shared);
            assert!(busy_poll.lasts(shared), "not often enough in a row");
        }
        busy_poll.idled(SHARED, shared);
        assert!(!busy_poll.lasts(shared));
        assert!(!at(shared + Duration::from_millis(16), &mut busy_poll));
        assert!(at(shared + Duration::from_millis(17), &mut busy_poll));
    }
}
