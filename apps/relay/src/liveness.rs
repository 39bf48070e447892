//! Whether all threads of a relay go on working, for a service manager that restarts a relay which is stuck.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::shared::Shared;

/// Sees whether the threads of a relay work. Each takes a turn at least once a second, also without traffic.
pub struct Liveness {
    shared: Arc<Shared>,
    /// The turns of each thread when they were last looked at.
    last: Vec<usize>,
}

impl Liveness {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let last = turns(&shared);
        Self { shared, last }
    }

    /// Returns true if every thread took a turn since the last call. Call it no more often than every few seconds.
    pub fn all_worked(&mut self) -> bool {
        let now = turns(&self.shared);
        let all = now.iter().zip(&self.last).all(|(now, last)| now != last);
        self.last = now;
        all
    }
}

fn turns(shared: &Shared) -> Vec<usize> {
    shared.published.iter().map(|published| published.turns.load(Ordering::Relaxed)).collect()
}
