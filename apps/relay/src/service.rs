//! The service manager of a relay or a coordinator: what it learns, and when.

use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use taut_event::ServiceManager;

/// The service manager that started this program; one that does nothing if there is none.
pub struct Service(Option<Arc<ServiceManager>>);

/// Time between two attempts to tell that the program is ready, 100 ms, and their number: after a minute and a half systemd has given up by itself.
const AGAIN: Duration = Duration::from_millis(100);
const ATTEMPTS: u32 = 900;

impl Service {
    /// Connects to the service manager that the environment names; `variable` returns its variables. One that cannot be reached is logged, and then there is none.
    pub fn connect(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        Self(
            ServiceManager::connect(variable)
                .unwrap_or_else(|error| {
                    let reason = error.to_string();
                    let hint = "it cannot learn that the program is ready; see NOTIFY_SOCKET";
                    tracing::warn!(target: crate::log::DAEMON, event = "service-manager-not-reached", reason, hint);
                    None
                })
                .map(Arc::new),
        )
    }

    /// Tells that the program serves, and its state in one line. A manager without room is told again, by a thread of its own: it would take the program for one that
    /// does not start, and end it.
    pub fn ready(&self, status: &str) {
        let message = format!("READY=1\nSTATUS={status}");
        let Some(manager) = self.0.clone() else { return };
        if !is_full(&manager.tell(&message)) {
            return;
        }
        let again = move || {
            for _ in 0..ATTEMPTS {
                thread::sleep(AGAIN);
                if !is_full(&manager.tell(&message)) {
                    return;
                }
            }
        };
        // Without a thread it was tried once.
        let _ = thread::Builder::new().name(String::from("taut-ready")).spawn(again);
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

/// Returns true if the manager had no room for a message.
fn is_full(told: &io::Result<()>) -> bool {
    matches!(told, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[test]
    fn a_manager_without_room_is_told_again_that_the_program_is_ready() {
        let path = std::env::temp_dir().join(format!("taut-ready-{}", std::process::id()));
        let socket = UnixDatagram::bind(&path).unwrap();
        let service = Service::connect(|name| (name == "NOTIFY_SOCKET").then(|| path.clone().into_os_string()));
        std::fs::remove_file(&path).unwrap();
        let manager = service.0.clone().unwrap();
        while !is_full(&manager.tell("STATUS=old")) {}
        service.ready("serves");
        let mut message = [0; 64];
        loop {
            let length = socket.recv(&mut message).unwrap();
            if message[..length].starts_with(b"READY=1\n") {
                return;
            }
        }
    }
}
