//! Busy polling: a lane polls its sockets briefly before it blocks, when that is cheaper than being woken.
//!
//! A wake-up costs more than carrying a packet: some ten microseconds on a virtual machine whose core went idle. A stream at full speed has its lanes block
//! and wake thousands of times per second, for pauses that are hardly longer than that. So a lane that carried packets for a good part of its time
//! ([`BUSY_SHARE`]) polls for [`BUSY_POLL`] before it blocks. That takes at most twice the time of carrying the packets, and none at all where there is
//! little traffic.
//!
//! In low-latency mode a lane polls for [`LOW_LATENCY_POLL`] after each packet. No packet that comes at least that often then waits for a wake-up (an echo
//! request through the tunnel wakes a lane four times), at the price of up to one core.
//!
//! ```text
//!              a packet came (low-latency mode), or it was busy           no packet for LOW_LATENCY_POLL, or BUSY_POLL
//!   blocks ──────────────────────────────────────────────────▶ polls ──────────────────────────────────────────────▶ blocks
//!                                                                │ yielded its core, and got it back too late
//!                                                                └───────────────────────────────────────────────▶ blocks, every time for a while
//! ```
//! Between two polls the lane yields its core. A program that computes keeps the core for a whole time slice of the scheduler, milliseconds, while a blocked
//! lane is preferred when it wakes. Hence the last arrow: at most one such time slice per [`CROWDED_COOLDOWN`] is lost. And where a lane shares its core with
//! the program whose stream it carries, there is no pause to bridge and no core that would go idle: the lane stops polling once it was preempted
//! [`SHARED_CORE_STREAK`] times in a row.
//!
//! There is one more occasion to yield, also for a lane that never polls: after it wrote UDP datagrams. The receiving socket holds few of them, and the
//! program that reads it may want this core. TCP waits for its readers on its own. A program that computes is remembered for both occasions.

use std::time::Duration;

use taut_base::Time;

/// Busy-poll time after a packet in low-latency mode, 50 ms: longer than the 20 ms between packets of a call or a game.
const LOW_LATENCY_POLL: Duration = Duration::from_millis(50);
/// Busy-poll time of a busy lane, 300 µs: longer than most pauses inside a stream (measured, docs/performance.md).
const BUSY_POLL: Duration = Duration::from_micros(300);
/// A lane is busy if it carried packets for at least one third of its recent time. Each end of a stream at full speed does so for more than half.
const BUSY_SHARE: u32 = 3;
/// The recent time over which a lane is judged busy, 4 ms.
const SPAN: Duration = Duration::from_millis(4);
/// Time without its core, 1 ms, after which a lane takes the core for crowded. A program that handles a packet gives the core back sooner; a program that
/// computes keeps it for its time slice, 1.4 ms or more.
const CROWDED: Duration = Duration::from_millis(1);
/// Time for which a lane yields no more after it found its core crowded, 100 ms.
const CROWDED_COOLDOWN: Duration = Duration::from_millis(100);
/// Time without its core, 100 µs, that counts as a preemption: the core had something to do meanwhile.
const PREEMPTED: Duration = Duration::from_micros(100);
/// Eight preemptions in a row count as a shared core; fewer also happen on a core that is shared only now and then.
const SHARED_CORE_STREAK: u32 = 8;
/// Busy polling stays off for 20 ms after the core turned out to be shared. That spans hundreds of pauses, so re-testing is cheap.
const SHARED_CORE_COOLDOWN: Duration = Duration::from_millis(20);

/// Decides when one lane polls and when it yields its core.
#[derive(Debug)]
pub(crate) struct BusyPoll {
    low_latency: bool,
    /// The lane polls until this time.
    until: Time,
    /// Until this time the core counts as crowded: a program that computes has it.
    crowded_until: Time,
    /// Until this time the core counts as shared with the program whose stream the lane carries.
    shared_until: Time,
    /// Preemptions in a row.
    preemptions: u32,
    /// When the last turn or the last wait began.
    since: Time,
    /// The recent time, and the part of it that was spent in turns. Both are halved when [`SPAN`] is reached.
    span: Duration,
    busy: Duration,
}

impl BusyPoll {
    /// Returns the state of a lane that has carried no packet yet.
    pub(crate) fn new(low_latency: bool) -> Self {
        let (span, busy) = (Duration::ZERO, Duration::ZERO);
        Self {
            low_latency,
            until: Time::ZERO,
            crowded_until: Time::ZERO,
            shared_until: Time::ZERO,
            preemptions: 0,
            since: Time::ZERO,
            span,
            busy,
        }
    }

    /// Notes that a turn begins, after a wait.
    pub(crate) fn turn_begins(&mut self, now: Time) {
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

    /// Notes that a turn ended and a wait begins.
    pub(crate) fn wait_begins(&mut self, now: Time) {
        let turn = now.since(self.since).min(SPAN);
        (self.span, self.busy, self.since) = (self.span + turn, self.busy + turn, now);
        if self.busy * BUSY_SHARE >= self.span {
            self.until = self.until.max(now + BUSY_POLL);
        }
    }

    /// Notes that packets came from the network or the host.
    pub(crate) fn saw_packets(&mut self, now: Time) {
        if self.low_latency {
            self.until = now + LOW_LATENCY_POLL;
        }
    }

    /// Returns true if the lane polls instead of blocking.
    pub(crate) fn polls(&self, now: Time) -> bool {
        now < self.until && now >= self.crowded_until.max(self.shared_until)
    }

    /// Returns true if the lane may yield its core so that a program can read: not while the core is crowded.
    pub(crate) fn may_yield(&self, now: Time) -> bool {
        now >= self.crowded_until
    }

    /// Notes that the lane yielded its core and got it back after `away`.
    pub(crate) fn yielded(&mut self, away: Duration, now: Time) {
        if away >= CROWDED {
            self.crowded_until = now + CROWDED_COOLDOWN;
        }
    }

    /// Notes the same between two polls, when the lane itself had nothing to do. That shows whether its core is shared.
    pub(crate) fn yielded_idle(&mut self, away: Duration, now: Time) {
        self.yielded(away, now);
        if self.low_latency || away >= CROWDED {
            return;
        }
        self.preemptions = if away >= PREEMPTED { self.preemptions + 1 } else { 0 };
        if self.preemptions >= SHARED_CORE_STREAK {
            (self.preemptions, self.shared_until) = (0, now + SHARED_CORE_COOLDOWN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time(1_000_000_000);
    const INSTANT: Duration = Duration::from_nanos(1);

    #[test]
    fn in_low_latency_mode_a_lane_polls_for_50_ms_after_packets() {
        let mut busy_poll = BusyPoll::new(true);
        assert!(!busy_poll.polls(START), "no packet came yet");
        busy_poll.saw_packets(START);
        assert!(busy_poll.polls(START + (LOW_LATENCY_POLL - INSTANT)) && !busy_poll.polls(START + LOW_LATENCY_POLL));
        busy_poll.saw_packets(START + LOW_LATENCY_POLL);
        assert!(busy_poll.polls(START + LOW_LATENCY_POLL));
    }

    /// Returns the busy-poll time after many turns of `turn` microseconds with pauses of `pause` microseconds between them.
    fn poll_time(turn: u64, pause: u64) -> Option<Duration> {
        let mut busy_poll = BusyPoll::new(false);
        let (mut now, mut waits) = (START, START);
        for _ in 0..1_000 {
            busy_poll.turn_begins(now);
            busy_poll.saw_packets(now);
            waits = now + Duration::from_micros(turn);
            busy_poll.wait_begins(waits);
            now = waits + Duration::from_micros(pause);
        }
        busy_poll.polls(waits).then(|| busy_poll.until.since(waits))
    }

    #[test]
    fn without_low_latency_mode_only_a_busy_lane_polls_and_briefly() {
        assert_eq!(poll_time(60, 40), Some(BUSY_POLL));
        assert_eq!(poll_time(35, 65), Some(BUSY_POLL));
        assert_eq!(poll_time(30, 70), None, "busy for less than a third");
        assert_eq!(poll_time(400, 9_600), None, "long turns, but few of them");
        assert_eq!(poll_time(5, 20_000), None);
    }

    #[test]
    fn a_lane_that_was_busy_blocks_when_no_packets_come() {
        let mut busy_poll = BusyPoll::new(false);
        busy_poll.turn_begins(START);
        let end = START + Duration::from_millis(3);
        busy_poll.wait_begins(end);
        assert!(busy_poll.polls(end) && !busy_poll.polls(end + BUSY_POLL));
        // A timer a second later.
        let later = end + Duration::from_secs(1);
        busy_poll.turn_begins(later);
        busy_poll.wait_begins(later + Duration::from_micros(5));
        assert!(!busy_poll.polls(later + Duration::from_micros(5)));
    }

    #[test]
    fn on_a_crowded_core_a_lane_neither_polls_nor_yields_for_a_while() {
        let mut busy_poll = BusyPoll::new(true);
        busy_poll.saw_packets(START);
        busy_poll.yielded_idle(CROWDED - INSTANT, START);
        assert!(busy_poll.polls(START));
        busy_poll.yielded_idle(CROWDED, START);
        let again = START + CROWDED_COOLDOWN;
        busy_poll.saw_packets(again);
        assert!(!busy_poll.polls(START + (CROWDED_COOLDOWN - INSTANT)) && busy_poll.polls(again));
        assert!(
            !busy_poll.may_yield(START + (CROWDED_COOLDOWN - INSTANT)) && busy_poll.may_yield(again),
            "nor does it yield to readers"
        );
    }

    #[test]
    fn a_lane_does_not_yield_to_readers_on_a_crowded_core() {
        let mut busy_poll = BusyPoll::new(true);
        assert!(busy_poll.may_yield(START));
        busy_poll.yielded(CROWDED - INSTANT, START);
        assert!(busy_poll.may_yield(START));
        busy_poll.yielded(CROWDED, START);
        assert!(
            !busy_poll.may_yield(START + (CROWDED_COOLDOWN - INSTANT)) && busy_poll.may_yield(START + CROWDED_COOLDOWN)
        );
        busy_poll.saw_packets(START);
        assert!(!busy_poll.polls(START), "nor does the lane poll");
    }

    #[test]
    fn a_busy_lane_does_not_poll_on_a_shared_core() {
        let mut busy_poll = BusyPoll::new(false);
        let at = |now: Time, busy_poll: &mut BusyPoll| {
            busy_poll.turn_begins(now);
            let waits = now + Duration::from_millis(3);
            busy_poll.wait_begins(waits);
            busy_poll.polls(waits)
        };
        assert!(at(START, &mut busy_poll));
        let shared = START + Duration::from_millis(3);
        for away in [PREEMPTED; SHARED_CORE_STREAK as usize - 1]
            .into_iter()
            .chain([PREEMPTED - INSTANT])
            .chain([PREEMPTED; SHARED_CORE_STREAK as usize - 1])
        {
            busy_poll.yielded_idle(away, shared);
            assert!(busy_poll.polls(shared), "too few preemptions in a row");
        }
        busy_poll.yielded_idle(PREEMPTED, shared);
        assert!(!busy_poll.polls(shared));
        assert!(!at(shared + Duration::from_millis(16), &mut busy_poll));
        assert!(at(shared + Duration::from_millis(17), &mut busy_poll));
    }
}
