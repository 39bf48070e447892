//! Why the daemon could not start, or the network could not come up: what, why, what to do.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::api::Failure;

/// Why the daemon ended at once.
#[derive(Debug)]
pub enum RunError {
    /// Another daemon answers on the socket.
    AlreadyRunning(PathBuf),
    /// The socket cannot be made.
    Socket(PathBuf, io::Error),
    /// The figures cannot be handed out there.
    Metrics(SocketAddr, io::Error),
    /// The state directory cannot be used.
    State(taut_control::StartError),
    /// The kernel refuses something that every daemon needs.
    System(&'static str, io::Error),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyRunning(path) => write!(
                f,
                "another taut daemon answers on {}; stop it with `taut down`, or give this one its own --socket, --state and --tun",
                path.display()
            ),
            Self::Socket(path, error) => {
                write!(
                    f,
                    "the local API socket {} cannot be made: {error}; run as root, or choose another --socket",
                    path.display()
                )
            }
            Self::Metrics(address, error) => {
                write!(
                    f,
                    "the figures cannot be handed out at {address}: {error}; choose another address with --metrics"
                )
            }
            Self::State(error) => error.fmt(f),
            Self::System(what, error) => {
                write!(f, "the kernel did not let the daemon {what}: {error}; run it as root on Linux 4.14 or later")
            }
        }
    }
}

impl std::error::Error for RunError {}

/// Why the network could not come up.
pub(crate) fn failure(message: impl fmt::Display, hint: &str) -> Failure {
    Failure { message: message.to_string(), hint: String::from(hint) }
}
