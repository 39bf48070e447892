//! Pages of the program that only a node's start needs.
//!
//! A start runs functions with half of the program's bytes, and a node at rest functions with a fifth of them (`make order`). The kernel keeps what was mapped once as long as memory is plenty, and on a router it counts. So a node gives all pages of
//! the program's file back a moment after its start, and now and then later; what it runs next is mapped again in some microseconds. The programs of packages have what a node at rest
//! needs side by side (`tools/shipping/order.txt`), so little comes back.

use std::time::Duration;

use taut_base::Time;

/// Time from the start to the first turn, 8 s: the network is up, and paths are found.
const STARTED: Duration = Duration::from_secs(8);
/// Time between two turns, 10 min: commands and changes of the network run other parts of the program.
const AGAIN: Duration = Duration::from_secs(600);

/// When the pages are given back next.
#[derive(Debug)]
pub(super) struct Pages {
    due: Time,
}

impl Pages {
    pub(super) fn new(now: Time) -> Self {
        Self { due: now + STARTED }
    }

    /// Gives the pages back if that is due.
    pub(super) fn turn(&mut self, now: Time) {
        if now >= self.due {
            self.due = now + AGAIN;
            // Where the kernel refuses, the pages stay, as in every program.
            let _ = taut_sandbox::forget_code();
        }
    }

    pub(super) fn poll_timeout(&self) -> Time {
        self.due
    }
}
