//! The log of the coordinator and of `taut-relay`: one line per event on standard error, as text or JSON (docs/log.md, "Coordinator and relay").
//!
//! Events are those of the crate `tracing`: `tracing::info!(target: AREA, event = "joined", node = %id)`. The target is the *area*; events of areas that
//! the program does not name to [`start`] are ignored, which keeps the events of libraries out. Fields of the spans around an event are added to its line.
//!
//! Two fields have a meaning of their own. `event` is the name of the event. `limited` names the party that the line counts for, and is not written:
//! [`UNAUTHENTICATED`] (by the field `address`), [`MEMBERSHIP`] (by the fields `network` and `address`), or the number of a member. Such lines are limited for
//! each party (fault P5). A line never holds a secret: keys and tokens have no form that could be logged.
//!
//! A thread writes the lines, from a queue of bounded size. A reader of standard error that stalls costs lines, which are counted, and blocks nothing else.

mod layer;
mod levels;
mod limits;
mod line;
mod queue;
mod timestamp;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;

use layer::{LogLayer, Shared};
pub use levels::{LevelsError, LogLevels};
pub use line::{LogFormat, LogFormatError};

/// Area of the events of a relay, also of the one inside a coordinator.
pub const RELAY: &str = "relay";

/// Value of the field `limited` of events that anyone can cause.
pub const UNAUTHENTICATED: &str = "unauthenticated";

/// Value of the field `limited` of events about nodes that join or leave a network, or change their key.
pub const MEMBERSHIP: &str = "membership";

/// Area of the events of a program as a whole: start, stop and signals.
pub const DAEMON: &str = "daemon";

/// Log text for SIGHUP, which has no effect, because the program reads its settings only at its start.
pub const HANGUP: &str = "SIGHUP neither ends this program nor changes its settings; restart it to change them";

/// A clock before this time is wrong: the beginning of 2020, in seconds since 1970, years before the first release. A host without a battery begins in 1970.
const EARLIEST: u64 = 1_577_836_800;

/// Log text for a clock that is wrong.
const WRONG_CLOCK: &str = "certificates, tokens and tickets are judged by this wrong clock, and may count as valid or expired wrongly; set it (`timedatectl set-ntp true`, or `date -s TIME`)";

/// Longest wait for the reader of standard error when the program ends, 2 s.
const LAST_LINES: Duration = Duration::from_secs(2);

/// Warns of a wall clock that stands before 2020. Programs call it at their start.
pub fn warn_of_clock() {
    if is_early(SystemTime::now()) {
        tracing::warn!(target: DAEMON, event = "clock-wrong", clock = timestamp::now(), hint = WRONG_CLOCK);
    }
}

fn is_early(wall: SystemTime) -> bool {
    wall.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() < EARLIEST
}

/// The running log. When it is dropped, the remaining lines are written, unless the reader of standard error stalls for `LAST_LINES`.
pub struct Log {
    shared: Arc<Shared>,
    /// The levels of the command line.
    initial: LogLevels,
}

/// Changes the levels of a running log.
pub struct LevelSwitch {
    shared: Arc<Shared>,
    initial: LogLevels,
}

/// Starts the log of this process. Returns `None` if the process has another one already, or if no thread can be started.
pub fn start(format: LogFormat, levels: LogLevels) -> Option<Log> {
    let shared = Arc::new(Shared::new(format, levels.clone()));
    let writer = Arc::clone(&shared);
    std::thread::Builder::new().name(String::from("log")).spawn(move || writer.run(&mut std::io::stderr())).ok()?;
    tracing::subscriber::set_global_default(Registry::default().with(LogLayer::new(Arc::clone(&shared)))).ok()?;
    Some(Log { shared, initial: levels })
}

impl Log {
    /// Returns a handle that changes the levels.
    pub fn level_switch(&self) -> LevelSwitch {
        LevelSwitch { shared: Arc::clone(&self.shared), initial: self.initial.clone() }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.shared.finish(LAST_LINES);
    }
}

impl LevelSwitch {
    /// Records one level more in all areas, as in info → debug → trace. After the last level the levels of the command line are in force again. Returns the
    /// levels that are in force now.
    pub fn next_levels(&self) -> LogLevels {
        let current = self.shared.levels();
        let next = current.raised().unwrap_or_else(|| self.initial.clone());
        self.shared.set_levels(next.clone());
        tracing::callsite::rebuild_interest_cache();
        next
    }
}
