//! Errors of opening a socket, with what to do about them.

use std::error::Error;
use std::{fmt, io};

/// The reason why a socket could not be opened.
#[derive(Debug)]
pub enum BindError {
    /// Another program has the port.
    PortTaken {
        /// The requested port.
        port: u16,
    },
    /// The process is not permitted to use this port.
    NotPermitted {
        /// The requested port.
        port: u16,
    },
    /// The kernel refused for another reason.
    Kernel {
        /// The step that was refused.
        step: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl BindError {
    /// Returns the error for the kernel's answer to `step` for `port`.
    pub(crate) fn from_kernel(step: &'static str, port: u16, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EADDRINUSE) => Self::PortTaken { port },
            Some(libc::EACCES | libc::EPERM) => Self::NotPermitted { port },
            _ => Self::Kernel { step, source },
        }
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PortTaken { port } => write!(
                f,
                "cannot bind UDP port {port}: another program has it (see: ss -ulpn); \
                 stop it, choose another port, or 0 for any free port"
            ),
            Self::NotPermitted { port } => write!(
                f,
                "cannot bind UDP port {port}: not permitted; choose a port above 1023, \
                 or run as root or with CAP_NET_BIND_SERVICE"
            ),
            Self::Kernel { step, source } => {
                write!(f, "cannot {step}: {source}; see whether the network is restricted by a container or sandbox")
            }
        }
    }
}

impl Error for BindError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Kernel { source, .. } => Some(source),
            Self::PortTaken { .. } | Self::NotPermitted { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::BindError;
    use std::io;

    #[test]
    fn every_refusal_says_what_to_do() {
        let cases = [(libc::EADDRINUSE, "ss -ulpn"), (libc::EACCES, "above 1023"), (libc::ENOBUFS, "container")];
        for (code, advice) in cases {
            let error = BindError::from_kernel("open a socket", 443, io::Error::from_raw_os_error(code));
            assert!(error.to_string().contains(advice), "{error}");
        }
    }
}
