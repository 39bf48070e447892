//! The errors of the state directory.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// The error of [`crate::Control::start`]. Nothing was changed on disk.
#[derive(Debug)]
pub enum StartError {
    /// Another daemon uses this state directory.
    Locked {
        /// The state directory.
        state_dir: PathBuf,
        /// Process id of the other daemon, if it is known.
        pid: Option<u32>,
    },
    /// The state directory cannot be created or used.
    Directory {
        /// The state directory.
        state_dir: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// There is an identity, but no copy of it is readable. It is never replaced by a new one.
    Damaged {
        /// The state directory.
        state_dir: PathBuf,
        /// The unusable files, each with its damage.
        what: String,
    },
    /// A later version of the program wrote the state.
    Later {
        /// The file and its format.
        what: String,
    },
    /// The system has no more threads, descriptors or memory.
    System(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked { state_dir, pid } => {
                write!(f, "another taut daemon uses the state directory {}", state_dir.display())?;
                if let Some(pid) = pid {
                    write!(f, " (process {pid})")?;
                }
                f.write_str("; stop it with `taut down`, or give this one a directory of its own with --state")
            }
            Self::Directory { state_dir, error } => write!(
                f,
                "the state directory {} cannot be used: {error}; it must be writable for the daemon: free or remount the disk, run as root, or choose another one with --state",
                state_dir.display()
            ),
            Self::Damaged { state_dir, what } => write!(
                f,
                "the identity of this node is damaged: {what}; restore {} from a backup, or remove it to join as a new node",
                state_dir.display()
            ),
            Self::Later { what } => write!(f, "the state is of a later version: {what}; update taut"),
            Self::System(error) => {
                write!(f, "the system refused a thread or a descriptor: {error}; look at its limits")
            }
        }
    }
}

impl Error for StartError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Directory { error, .. } | Self::System(error) => Some(error),
            Self::Locked { .. } | Self::Damaged { .. } | Self::Later { .. } => None,
        }
    }
}
