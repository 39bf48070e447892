//! Low-latency mode: a lane looks again before it sleeps.
//!
//! To be woken costs more than to carry a packet: on a virtual machine whose core went idle, some ten microseconds each time, and an echo request
//! through the tunnel wakes a lane four times. In low-latency mode a lane that carried a packet does not sleep for [`LONG`] but looks again and
//! again, so that no wake-up stands in the way of anything that comes at least that often, for up to a core of processor time meanwhile.
//!
//! ```text
//!               a packet came                       none came for LONG
//!   sleeps ──────────────────────▶ lingers ───────────────────────────────────▶ sleeps
//!                                     │ gave way and had to wait for CROWDED
//!                                     └───────────────────────────────────────▶ sleeps, for AVOID at least
//! ```
//! Between two looks it gives way to whoever else wants its core. A program that computes takes a whole turn of the scheduler then, milliseconds,
//! while a lane that sleeps is put before it on waking. Hence the last arrow: at most one such turn per [`AVOID`] is lost.
//!
//! Without the mode a lane never lingers: to do so for 50 or 200 µs between packets that come close together gained nothing that could be told
//! from noise (docs/performance.md).

use std::time::Duration;

use taut_base::Time;

/// How long a lane lingers after a packet: longer than the pauses of calls and games, which send 50 times a second.
const LONG: Duration = Duration::from_millis(50);
/// A program that has a packet to deal with gives the core back sooner than this; one that computes keeps it for its turn, 1.4 ms or more.
const CROWDED: Duration = Duration::from_millis(1);
/// How long a core stays avoided.
const AVOID: Duration = Duration::from_millis(100);

/// One lane's habits.
#[derive(Debug)]
pub(crate) struct Linger {
    on: bool,
    /// Until when it looks again.
    until: Time,
    /// Until when it does not.
    avoided: Time,
}

impl Linger {
    /// For a lane that has carried nothing yet; `on` in low-latency mode.
    pub(crate) fn new(on: bool) -> Self {
        Self { on, until: Time::ZERO, avoided: Time::ZERO }
    }

    /// Packets came, or the host had some.
    pub(crate) fn packets(&mut self, now: Time) {
        if self.on {
            self.until = now + LONG;
        }
    }

    /// Whether to look again instead of sleeping.
    pub(crate) fn lasts(&self, now: Time) -> bool {
        now < self.until && now >= self.avoided
    }

    /// The lane gave way and has its core back after `away`.
    pub(crate) fn gave_way(&mut self, away: Duration, now: Time) {
        if away >= CROWDED {
            self.avoided = now + AVOID;
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
        let mut linger = Linger::new(true);
        assert!(!linger.lasts(START), "nothing came yet");
        linger.packets(START);
        assert!(linger.lasts(START + (LONG - INSTANT)) && !linger.lasts(START + LONG));
        linger.packets(START + LONG);
        assert!(linger.lasts(START + LONG));
    }

    #[test]
    fn without_the_mode_it_never_does() {
        let mut linger = Linger::new(false);
        linger.packets(START);
        assert!(!linger.lasts(START));
    }

    #[test]
    fn a_core_that_others_keep_is_avoided_for_a_while() {
        let mut linger = Linger::new(true);
        linger.packets(START);
        linger.gave_way(CROWDED - INSTANT, START);
        assert!(linger.lasts(START));
        linger.gave_way(CROWDED, START);
        let again = START + AVOID;
        linger.packets(again);
        assert!(!linger.lasts(START + (AVOID - INSTANT)) && linger.lasts(again));
    }
}
