//! The log of the coordinator and of `taut-relay`: one line per event on standard error, as text or JSON (docs/log.md, "Coordinator and relay").
//!
//! Events are those of the crate `tracing`: `tracing::info!(target: AREA, event = "joined", node = %id)`. The target is the *area*; events of areas that
//! the program does not name to [`start`] are ignored, which keeps the events of libraries out. Fields of the spans around an event are added to its line.
//!
//! Two fields have a meaning of their own. `event` is the name of the event. `limited` says who can cause it, and is not written: [`UNAUTHENTICATED`], or the
//! number of a member. Such lines are limited (fault P5). A line never holds a secret: keys and tokens have no form that could be logged.

mod layer;
mod levels;
mod limits;
mod line;
mod timestamp;

use std::sync::Arc;

use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;

use layer::{LogLayer, Shared};
pub use levels::{LevelsError, LogLevels};
pub use line::{LogFormat, LogFormatError};

/// Area of the events of a relay, also of the one inside a coordinator.
pub const RELAY: &str = "relay";

/// Value of the field `limited` of events that anyone can cause.
pub const UNAUTHENTICATED: &str = "unauthenticated";

/// A handle on the running log.
pub struct Log {
    shared: Arc<Shared>,
    /// The levels of the command line.
    initial: LogLevels,
}

/// Starts the log of this process. Returns `None` if the process has another one already.
pub fn start(format: LogFormat, levels: LogLevels) -> Option<Log> {
    let shared = Arc::new(Shared::new(format, levels.clone()));
    tracing::subscriber::set_global_default(Registry::default().with(LogLayer::new(Arc::clone(&shared)))).ok()?;
    Some(Log { shared, initial: levels })
}

impl Log {
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
