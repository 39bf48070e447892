//! Memory that the daemon gives back.
//!
//! Most of the program's code runs only at the start, at a join or for a question of a user. Its pages stay mapped afterwards, and count as memory of the daemon, which on a router is
//! most of it. Without this the kernel looks through them only when memory is short already.

use std::time::Duration;

use taut_base::Time;
use taut_sandbox::unmap_program;

/// Time from the start to the first time, 30 s: by then most nodes have joined and found direct paths.
const FIRST: Duration = Duration::from_secs(30);

/// Time between two times, 5 minutes. What is still needed is mapped again without the disk in less than a millisecond for the whole program.
const INTERVAL: Duration = Duration::from_secs(300);

/// When the pages of the program are given back the next time: in the first turn after that, because it is no reason to wake up.
#[derive(Default)]
pub(super) struct Memory {
    due: Option<Time>,
}

impl Memory {
    /// Gives back pages of the program if it is time.
    pub(super) fn turn(&mut self, now: Time) {
        let due = *self.due.get_or_insert(now + FIRST);
        if now >= due {
            self.due = Some(now + INTERVAL);
            // Where the kernel refuses, the pages stay.
            let _ = unmap_program();
        }
    }
}
