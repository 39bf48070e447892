//! Measures the load of the program: its working time as a share of one core.

use std::time::Duration;

use taut_base::Time;

/// Length of a window over which load is measured: queues absorb shorter bursts.
const WINDOW: Duration = Duration::from_millis(100);

/// Working time, by windows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    start: Time,
    window: Time,
    busy: Duration,
    all: Duration,
    busiest: f64,
    turns: u64,
}

impl Load {
    /// Starts measuring at `now`.
    pub(crate) fn new(now: Time) -> Self {
        Self { start: now, window: now, busy: Duration::ZERO, all: Duration::ZERO, busiest: 0.0, turns: 0 }
    }

    /// Adds the work between two times.
    pub(crate) fn worked(&mut self, from: Time, to: Time) {
        let busy = to.since(from);
        self.busy += busy;
        self.all += busy;
        self.turns += 1;
        let length = to.since(self.window);
        if length >= WINDOW {
            self.busiest = self.busiest.max(self.busy.as_secs_f64() / length.as_secs_f64());
            (self.window, self.busy) = (to, Duration::ZERO);
        }
    }

    /// Returns the share of working time since the start.
    pub(crate) fn mean(&self, now: Time) -> f64 {
        self.all.as_secs_f64() / now.since(self.start).as_secs_f64().max(1e-9)
    }

    /// Returns the share of working time in the busiest window.
    pub(crate) fn busiest(&self) -> f64 {
        self.busiest
    }

    /// Returns the number of turns with work.
    pub(crate) fn turns(&self) -> u64 {
        self.turns
    }

    /// Returns the time since the start.
    pub(crate) fn lasted(&self, now: Time) -> Duration {
        now.since(self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_window_and_the_mean_are_reported() {
        let at = |milliseconds| Time::ZERO + Duration::from_millis(milliseconds);
        let mut load = Load::new(at(0));
        load.worked(at(50), at(100));
        load.worked(at(110), at(200));
        load.worked(at(290), at(300));
        assert!((load.busiest() - 0.9).abs() < 1e-9);
        assert!((load.mean(at(300)) - 0.5).abs() < 1e-9);
        assert_eq!((load.lasted(at(300)), load.turns()), (Duration::from_millis(300), 3));
    }
}
