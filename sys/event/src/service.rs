//! Messages to the service manager that started this process, as systemd defines them (man 3 sd_notify): one datagram with `NAME=VALUE` lines.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// A service manager that waits for messages of this process.
#[derive(Debug)]
pub struct ServiceManager {
    socket: UnixDatagram,
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// Connects to the service manager that the variables of the environment name; `variable` returns them by name. `None` without one.
    ///
    /// # Errors
    /// If the socket that is named cannot be reached.
    pub fn connect(variable: impl Fn(&str) -> Option<OsString>) -> io::Result<Option<Self>> {
        let Some(name) = variable("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return Ok(None) };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address(&name)?)?;
        // A manager that does not read must not stop the caller.
        socket.set_nonblocking(true)?;
        let text = |name: &str| variable(name)?.into_string().ok();
        let watchdog = watchdog(text("WATCHDOG_USEC").as_deref(), text("WATCHDOG_PID").as_deref());
        Ok(Some(Self { socket, watchdog }))
    }

    /// Sends a message, such as `READY=1`.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if the manager has not read earlier messages, and others if it is gone.
    pub fn tell(&self, message: &str) -> io::Result<()> {
        self.socket.send(message.as_bytes()).map(drop)
    }

    /// Returns the interval in which the manager wants to read `WATCHDOG=1`, half of the time after which it restarts the process. `None` if it does not watch.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }
}

/// Returns the address of a socket: a path, or a name of the abstract namespace behind `@`.
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes() {
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest),
        [b'/', ..] => SocketAddr::from_pathname(name),
        _ => Err(io::Error::other("NOTIFY_SOCKET is neither a path nor an abstract name")),
    }
}

/// Returns half of `WATCHDOG_USEC`, if the watchdog is for this process.
fn watchdog(period: Option<&str>, process: Option<&str>) -> Option<Duration> {
    let is_own = process.is_none_or(|process| process.parse() == Ok(std::process::id()));
    let period: u64 = period?.parse().ok()?;
    // A period below a millisecond is no real one, and would have the caller do nothing else.
    (is_own && period >= 1_000).then(|| Duration::from_micros(period / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manager(name: &str, more: &[(&str, String)]) -> io::Result<Option<ServiceManager>> {
        ServiceManager::connect(|wanted| {
            let all = [("NOTIFY_SOCKET", String::from(name))].into_iter().chain(more.iter().cloned());
            all.into_iter().find(|(variable, _)| *variable == wanted).map(|(_, value)| value.into())
        })
    }

    fn read(socket: &UnixDatagram) -> String {
        let mut room = [0; 256];
        let length = socket.recv(&mut room).unwrap();
        String::from_utf8(room[..length].to_vec()).unwrap()
    }

    #[test]
    fn a_message_reaches_a_manager_by_path_and_by_abstract_name() {
        let path = std::env::temp_dir().join(format!("taut-notify-{}", std::process::id()));
        let at_path = UnixDatagram::bind(&path).unwrap();
        let hidden = format!("taut-notify-{}", std::process::id());
        let at_name = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(hidden.as_bytes()).unwrap()).unwrap();
        let names = [(path.to_string_lossy().into_owned(), at_path), (format!("@{hidden}"), at_name)];
        let sent = names.map(|(name, socket)| {
            manager(&name, &[]).unwrap().unwrap().tell("READY=1\nSTATUS=works").unwrap();
            read(&socket)
        });
        std::fs::remove_file(&path).unwrap();
        assert_eq!(sent, ["READY=1\nSTATUS=works"; 2]);
    }

    #[test]
    fn a_manager_that_does_not_read_stops_nobody() {
        let hidden = format!("taut-notify-full-{}", std::process::id());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(hidden.as_bytes()).unwrap()).unwrap();
        let manager = manager(&format!("@{hidden}"), &[]).unwrap().unwrap();
        let refused = (0..100_000).find_map(|_| manager.tell("WATCHDOG=1").err()).map(|error| error.kind());
        assert_eq!(refused, Some(io::ErrorKind::WouldBlock));
        read(&socket);
        manager.tell("READY=1").unwrap();
        drop(socket);
        assert!(manager.tell("READY=1").is_err());
    }

    #[test]
    fn without_a_manager_there_is_none() {
        assert!(ServiceManager::connect(|_| None).unwrap().is_none());
        assert!(manager("", &[]).unwrap().is_none());
        assert!(manager("name", &[]).is_err() && manager("/nonexistent/notify", &[]).is_err());
    }

    #[test]
    fn the_watchdog_is_fed_twice_as_often_as_needed_and_by_its_own_process() {
        let own = std::process::id().to_string();
        assert_eq!(watchdog(Some("60000000"), Some(&own)), Some(Duration::from_secs(30)));
        assert_eq!(watchdog(Some("60000000"), None), Some(Duration::from_secs(30)));
        for (period, process) in [(None, None), (Some("60000000"), Some("1")), (Some("0"), None), (Some("x"), None)] {
            assert_eq!(watchdog(period, process), None, "{period:?} {process:?}");
        }
    }
}
