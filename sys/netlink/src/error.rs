//! Errors: what failed, for which object, why, and what to do about it.

use crate::parse::Malformed;
use std::error::Error;
use std::{fmt, io};

/// The reason why a request failed.
#[derive(Debug)]
pub enum NetlinkError {
    /// The kernel answered with an error.
    Refused {
        /// The request, such as "add the address".
        operation: &'static str,
        /// The object, such as "192.0.2.1/24 on interface 3".
        object: String,
        /// The kernel's error number.
        source: io::Error,
        /// The kernel's explanation, if it gives one.
        detail: Option<String>,
    },
    /// Another program's route to the same destination exists.
    RouteTaken {
        /// The requested route.
        object: String,
        /// Routing protocol number of the existing route (`ip route` shows it as `proto`).
        protocol: u8,
        /// The interface of the existing route, if it has one.
        interface: Option<u32>,
    },
    /// The conversation with the kernel failed, before or after the request.
    Socket {
        /// The request.
        operation: &'static str,
        /// The socket's error.
        source: io::Error,
    },
    /// The kernel's answer could not be understood.
    Malformed {
        /// The request.
        operation: &'static str,
        /// The part that did not fit.
        what: &'static str,
    },
    /// The configuration changed during each attempt to read it.
    Unsettled {
        /// The request.
        operation: &'static str,
    },
}

impl NetlinkError {
    /// The kernel's error number, if it gave one.
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Refused { source, .. } | Self::Socket { source, .. } => source.raw_os_error(),
            Self::RouteTaken { .. } | Self::Malformed { .. } | Self::Unsettled { .. } => None,
        }
    }

    pub(crate) fn malformed(operation: &'static str) -> impl Fn(Malformed) -> Self {
        move |Malformed(what)| Self::Malformed { operation, what }
    }
}

/// What a user can do about an error number of rtnetlink.
fn hint(code: Option<i32>) -> &'static str {
    match code {
        Some(libc::EPERM | libc::EACCES) => {
            "run as root or with the capability CAP_NET_ADMIN (in a container: --cap-add NET_ADMIN)"
        }
        Some(libc::ENODEV | libc::ENXIO) => "the interface is gone; see: ip link",
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH) => {
            "the gateway is on no connected network; see: ip address, ip route"
        }
        Some(libc::ENETDOWN) => "the interface is down; set it up first",
        Some(libc::EEXIST) => "the same is there already, from somebody else; see: ip address, ip route",
        Some(libc::EOPNOTSUPP | libc::EAFNOSUPPORT) => "the kernel lacks this, or has IPv6 switched off",
        Some(libc::EINVAL | libc::ERANGE) => {
            "the kernel does not accept this value; see the range it allows: ip -d link"
        }
        _ => "see the kernel's log (dmesg)",
    }
}

impl fmt::Display for NetlinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { operation, object, source, detail } => {
                write!(f, "cannot {operation} {object}: {source}")?;
                if let Some(detail) = detail {
                    write!(f, ", the kernel says: {detail}")?;
                }
                write!(f, "; {}", hint(source.raw_os_error()))
            }
            Self::RouteTaken { object, protocol, interface: _ } => write!(
                f,
                "cannot add the route {object}: another program has one to the same destination \
                 (proto {protocol}); remove that one (see: ip route), or choose another metric"
            ),
            Self::Socket { operation, source } => write!(
                f,
                "cannot {operation}: the netlink socket failed: {source}; \
                 see whether a container or sandbox forbids AF_NETLINK"
            ),
            Self::Malformed { operation, what } => write!(
                f,
                "cannot {operation}: the kernel's answer has a wrong {what}; \
                 please report this with the output of uname -a"
            ),
            Self::Unsettled { operation } => {
                write!(f, "cannot {operation}: it changes faster than it can be read; try again in a moment")
            }
        }
    }
}

impl Error for NetlinkError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Refused { source, .. } | Self::Socket { source, .. } => Some(source),
            Self::RouteTaken { .. } | Self::Malformed { .. } | Self::Unsettled { .. } => None,
        }
    }
}
