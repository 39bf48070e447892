//! A client of the daemon's local API.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use taut_agent::api::{
    ApiRequest, ApiResponse, Failure, KillSwitchStatus, LogPart, Reach, Status, Why, private_socket,
};
use taut_netmap::Connection;

use crate::chosen;
use crate::fault::Fault;
use crate::flags::default_state;
use crate::table;

/// Longest wait for an answer, 10 s: a daemon that works answers within milliseconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest wait for a connection, 10 s: the daemon accepts a full queue of 4,096 connections within 5 s.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Hint for an answer that this program cannot read.
const BOTH_VERSIONS: &str = "use a `taut` of the daemon's version; `taut version` shows both";

/// A connection to the daemon.
pub(crate) struct Client {
    stream: BufReader<UnixStream>,
    socket: PathBuf,
}

/// The reason why there is no connection to the daemon.
#[derive(Debug)]
pub(crate) enum NoDaemon {
    /// No process answers on the socket.
    Absent,
    /// The socket cannot be used. A daemon may be running.
    Denied(io::Error),
}

impl Client {
    /// Connects to the daemon. Returns [`NoDaemon`] if none runs or the socket cannot be used.
    pub(crate) fn connect(socket: &Path) -> Result<Self, NoDaemon> {
        let stream = connect(socket).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => NoDaemon::Absent,
            _ => NoDaemon::Denied(error),
        })?;
        let limited =
            stream.set_read_timeout(Some(ANSWER_TIMEOUT)).and_then(|()| stream.set_write_timeout(Some(ANSWER_TIMEOUT)));
        limited.map_err(NoDaemon::Denied)?;
        Ok(Self { stream: BufReader::new(stream), socket: socket.to_path_buf() })
    }

    /// Connects to the daemon; a missing daemon is a failure.
    pub(crate) fn open(socket: &Path) -> Result<Self, Fault> {
        Self::connect(socket).map_err(|why| why.explain(socket))
    }

    /// Sends a request, and waits for the answer. Returns `None` if the daemon ended instead.
    pub(crate) fn ask(&mut self, request: &ApiRequest) -> Result<Option<ApiResponse>, Fault> {
        let lost = |error: io::Error| match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => None,
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                Some(Fault::failed("the daemon does not answer", "see its log, or restart it"))
            }
            _ => Some(Fault::failed(format!("cannot send the request to the daemon: {error}"), "try again")),
        };
        let mut line = taut_json::to_vec(request).map_err(|error| Fault::failed(error.to_string(), ""))?;
        line.push(b'\n');
        if let Err(error) = self.stream.get_mut().write_all(&line) {
            return lost(error).map_or(Ok(None), Err);
        }
        let mut answer = Vec::new();
        match self.stream.read_until(b'\n', &mut answer) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(error) => return lost(error).map_or(Ok(None), Err),
        }
        let answer = ApiResponse::read(&answer)
            .map_err(|error| Fault::failed(format!("the daemon's answer cannot be read: {error}"), BOTH_VERSIONS))?;
        Ok(Some(answer))
    }

    /// Sends a request that changes nothing, and repeats it on a new connection if the old one was closed: the daemon closes idle connections of
    /// unprivileged users.
    fn read_only(&mut self, request: &ApiRequest) -> Result<Option<ApiResponse>, Fault> {
        let answer = self.ask(request)?;
        if answer.is_none()
            && let Ok(again) = Self::connect(&self.socket)
        {
            *self = again;
            return self.ask(request);
        }
        Ok(answer)
    }

    /// Returns the status of the node.
    pub(crate) fn status(&mut self) -> Result<Box<Status>, Fault> {
        match self.read_only(&ApiRequest::Status)? {
            Some(ApiResponse::Status(status)) => Ok(status),
            other => Err(unexpected(other)),
        }
    }

    /// Returns the explanation of the path to a peer.
    pub(crate) fn why(&mut self, peer: &str) -> Result<Box<Why>, Fault> {
        match self.read_only(&ApiRequest::Why { peer: String::from(peer) })? {
            Some(ApiResponse::Why(why)) => Ok(why),
            other => Err(unexpected(other)),
        }
    }

    /// Returns what is known of the policy's verdict on a connection. The first call asks the coordinator.
    pub(crate) fn reach(&mut self, connection: &Connection) -> Result<Box<Reach>, Fault> {
        match self.read_only(&ApiRequest::Reach(connection.clone()))? {
            Some(ApiResponse::Reach(reach)) => Ok(reach),
            other => Err(unexpected(other)),
        }
    }

    /// Returns the metrics in the Prometheus text format.
    pub(crate) fn metrics(&mut self) -> Result<String, Fault> {
        match self.read_only(&ApiRequest::Metrics)? {
            Some(ApiResponse::Metrics { text }) => Ok(text),
            other => Err(unexpected(other)),
        }
    }

    /// Returns events from number `from` on, or from the oldest one in the daemon's memory.
    pub(crate) fn log(&mut self, from: Option<u64>) -> Result<Box<LogPart>, Fault> {
        match self.ask(&ApiRequest::Log { from })? {
            Some(ApiResponse::Log(part)) => Ok(part),
            other => Err(unexpected(other)),
        }
    }

    /// Requests `down`. If a command started the daemon, waits until it has ended; any other daemon keeps running.
    pub(crate) fn end(&mut self) {
        // The connection is the last thing that a daemon closes. `status` returns only after that, so that the next `taut up` cannot reach the old daemon.
        let _ = self.change(&ApiRequest::Down).and_then(|_| self.status());
    }

    /// Requests a change. Returns true if the daemon made it, false if the daemon ended instead of answering.
    pub(crate) fn change(&mut self, request: &ApiRequest) -> Result<bool, Fault> {
        match self.ask(request)? {
            Some(ApiResponse::Failed(failure)) => Err(failure.into()),
            Some(_) => Ok(true),
            None => Ok(false),
        }
    }
}

/// Connects to the daemon's private socket if this user may, and to the public one otherwise. On the private one, root does not wait behind other local
/// users (fault P7).
fn connect(socket: &Path) -> io::Result<UnixStream> {
    let private = private_socket(socket);
    // If every user may write the directory, another user may have created the private socket. It is used only if both sockets have the same owner.
    let owner = |path: &Path| std::fs::symlink_metadata(path).ok().map(|found| found.uid());
    if owner(&private).is_some_and(|uid| Some(uid) == owner(socket)) {
        match taut_event::connect(&private, CONNECT_TIMEOUT) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {}
            connected => return connected,
        }
    }
    taut_event::connect(socket, CONNECT_TIMEOUT)
}

/// Returns the failure for an answer that does not fit the request.
fn unexpected(answer: Option<ApiResponse>) -> Fault {
    match answer {
        Some(ApiResponse::Failed(failure)) => failure.into(),
        Some(_) => Fault::failed("the daemon's answer does not fit the request", BOTH_VERSIONS),
        None => Fault::failed("the daemon closed the connection", "start it with `taut up` if it has ended"),
    }
}

impl NoDaemon {
    pub(crate) fn explain(&self, socket: &Path) -> Fault {
        Fault::Failed(self.describe(socket))
    }

    /// Returns the problem with `socket`, and how to fix it.
    pub(crate) fn describe(&self, socket: &Path) -> Failure {
        let socket = socket.display();
        let (message, hint) = match self {
            Self::Absent => match seen_kill_switch().map(|seen| seen.paused_s.map(|left| table::fixed(left, 0))) {
                Some(None) => (
                    format!(
                        "taut is not running: no daemon answers on {socket}. Its kill switch is in force, so this host has no network"
                    ),
                    "start it with `taut up`, or give the kill switch up with `taut kill-switch remove`",
                ),
                Some(Some(left)) => (
                    format!(
                        "taut is not running: no daemon answers on {socket}. Its kill switch is open for {left} s more, and packets leave in the clear"
                    ),
                    "start it with `taut up`, close the kill switch with `taut kill-switch resume`, or give it up with `taut kill-switch remove`",
                ),
                None => (format!("taut is not running: no daemon answers on {socket}"), "start it with `taut up`"),
            },
            Self::Denied(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                (format!("cannot connect to the daemon on {socket}: {error}"), "try again as root")
            }
            Self::Denied(error) if error.kind() == io::ErrorKind::WouldBlock => (
                format!(
                    "the daemon on {socket} did not accept a connection within {} s: it hangs, or other local users open connections without pause",
                    CONNECT_TIMEOUT.as_secs()
                ),
                "try again as root, which does not wait behind other users; `ss -xlp` shows the queue. If root also waits, restart the daemon",
            ),
            Self::Denied(error) => {
                (format!("the socket {socket} cannot be used: {error}"), "give the right path with --socket")
            }
        };
        Failure { message, hint: String::from(hint) }
    }
}

/// Returns the kill switch of this network, if it is in force as far as this user may know. It needs no daemon.
pub(crate) fn seen_kill_switch() -> Option<KillSwitchStatus> {
    let usual = || chosen::network().map_or_else(|| String::from("taut0"), chosen::interface);
    let device = taut_control::saved_kill_switch(&default_state()).unwrap_or_else(usual);
    let seen = taut_agent::kill_switch::look(&device).ok().flatten()?;
    let paused_s = seen.paused.map(|left| left.as_secs_f64().round());
    Some(KillSwitchStatus { in_force: true, waits: false, dropped: seen.dropped, paused_s })
}

/// Returns the status of the node; a missing daemon is a failure.
pub(crate) fn status(socket: &Path) -> Result<Box<Status>, Fault> {
    Client::open(socket)?.status()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_closed_connection_is_reopened() {
        let path = std::env::temp_dir().join(format!("taut-client-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let daemon = std::thread::spawn(move || {
            for answers in [2, 1, 0] {
                let mut stream = BufReader::new(listener.accept().unwrap().0);
                for _ in 0..answers {
                    stream.read_until(b'\n', &mut Vec::new()).unwrap();
                    stream.get_mut().write_all(b"{\"answer\":\"metrics\",\"text\":\"a\"}\n").unwrap();
                }
            }
        });
        let mut client = Client::connect(&path).unwrap();
        for _ in 0..3 {
            assert_eq!(client.metrics().unwrap(), "a");
        }
        assert!(client.change(&ApiRequest::Down).is_ok_and(|done| !done), "a request for a change is not repeated");
        drop(Client::connect(&path));
        daemon.join().unwrap();
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn fault_p7_the_private_socket_comes_first_and_the_public_one_follows() {
        let path = std::env::temp_dir().join(format!("taut-client-private-{}", std::process::id()));
        let private = private_socket(&path);
        let public = UnixListener::bind(&path).unwrap();
        public.set_nonblocking(true).unwrap();
        // A daemon of release 0.1.0 has no private socket.
        let _client = Client::connect(&path).unwrap();
        assert!(public.accept().is_ok());
        let listener = UnixListener::bind(&private).unwrap();
        listener.set_nonblocking(true).unwrap();
        let _client = Client::connect(&path).unwrap();
        assert!(listener.accept().is_ok() && public.accept().is_err());
        if taut_event::is_root() {
            // A private socket of another user is not used.
            std::os::unix::fs::chown(&private, Some(65_534), None).unwrap();
            let _client = Client::connect(&path).unwrap();
            assert!(listener.accept().is_err() && public.accept().is_ok());
            std::os::unix::fs::chown(&private, Some(0), None).unwrap();
        }
        // The private socket of a killed daemon still exists.
        drop(listener);
        let _client = Client::connect(&path).unwrap();
        assert!(public.accept().is_ok());
        std::fs::remove_file(&private).unwrap();
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_full_queue_is_explained() {
        let failure = NoDaemon::Denied(io::ErrorKind::WouldBlock.into()).describe(Path::new("/s"));
        assert!(failure.message.contains("10 s") && failure.hint.contains("root"), "{failure:?}");
    }
}
