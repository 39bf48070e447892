//! How near the program came to what it can do.

use std::time::Duration;

use taut_base::Time;

/// Load is judged over windows of this length: a shorter burst is what queues are for.
const WINDOW: Duration = Duration::from_millis(100);

/// Time spent working, by windows.
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
    /// From `now` on.
    pub(crate) fn new(now: Time) -> Self {
        Self { start: now, window: now, busy: Duration::ZERO, all: Duration::ZERO, busiest: 0.0, turns: 0 }
    }

    /// Work was done from one time to another.
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

    /// Share of the time since the start.
    pub(crate) fn mean(&self, now: Time) -> f64 {
        self.all.as_secs_f64() / now.since(self.start).as_secs_f64().max(1e-9)
    }

    /// Share of the busiest window.
    pub(crate) fn busiest(&self) -> f64 {
        self.busiest
    }

    /// How often there was something to do.
    pub(crate) fn turns(&self) -> u64 {
        self.turns
    }

    /// Since the start.
    pub(crate) fn lasted(&self, now: Time) -> Duration {
        now.since(self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_window_counts() {
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
