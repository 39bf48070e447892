//! Errors that end the daemon: what happened, why, and what to do.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::api::Failure;

/// The reason why the daemon ended.
#[derive(Debug)]
pub enum RunError {
    /// Another daemon answers on the socket.
    AlreadyRunning(PathBuf),
    /// The local API's socket cannot be created.
    Socket(PathBuf, io::Error),
    /// The metrics cannot be served at this address.
    Metrics(SocketAddr, io::Error),
    /// The state directory cannot be used.
    State(taut_control::StartError),
    /// Two settings exclude each other.
    Settings(Failure),
    /// The kernel refused a step that every daemon needs.
    System(&'static str, io::Error),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyRunning(path) => write!(
                f,
                "another taut daemon answers on {}; stop it with `taut down` or by its service, or give this one its own --socket, --state and --tun",
                path.display()
            ),
            Self::Socket(path, error) => {
                write!(
                    f,
                    "the local API socket {} cannot be created: {error}; run the daemon as root, or choose another --socket",
                    path.display()
                )
            }
            Self::Metrics(address, error) => {
                write!(f, "metrics cannot be served at {address}: {error}; choose another address with --metrics")
            }
            Self::State(error) => error.fmt(f),
            Self::Settings(failure) => failure.fmt(f),
            Self::System(what, error) => {
                write!(f, "the kernel did not let the daemon {what}: {error}; run it as root on Linux 4.14 or later")
            }
        }
    }
}

impl std::error::Error for RunError {}
