//! The service manager of a relay or a coordinator: what it learns, and when.

use std::ffi::OsString;
use std::time::Duration;

use taut_event::ServiceManager;

/// The service manager that started this program; one that does nothing if there is none.
pub struct Service(Option<ServiceManager>);

impl Service {
    /// Connects to the service manager that the environment names; `variable` returns its variables. One that cannot be reached is logged, and then there is none.
    pub fn connect(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        Self(ServiceManager::connect(variable).unwrap_or_else(|error| {
            let reason = error.to_string();
            let hint = "it cannot learn that the program is ready; see NOTIFY_SOCKET";
            tracing::warn!(target: crate::log::DAEMON, event = "service-manager-not-reached", reason, hint);
            None
        }))
    }

    /// Tells that the program serves, and its state in one line.
    pub fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={status}"));
    }

    /// Tells the state in one line.
    pub fn status(&self, status: &str) {
        self.tell(&format!("STATUS={status}"));
    }

    /// Tells that the program works. It has to come from what can get stuck, once in every [`Self::watchdog`].
    pub fn alive(&self) {
        self.tell("WATCHDOG=1");
    }

    /// Tells that the program ends.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// Returns how often [`Self::alive`] is expected; `None` if the manager does not watch.
    pub fn watchdog(&self) -> Option<Duration> {
        self.0.as_ref()?.watchdog()
    }

    fn tell(&self, message: &str) {
        if let Some(manager) = &self.0 {
            // A manager that reads late or is gone decides by itself what to do with this program.
            let _ = manager.tell(message);
        }
    }
}
