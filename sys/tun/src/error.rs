//! Errors of TUN devices, with what to do about them.

use std::error::Error;
use std::{fmt, io};

/// The reason why a device could not be created or used.
#[derive(Debug)]
pub enum TunError {
    /// The kernel would not accept this interface name.
    InvalidName {
        /// The requested name.
        name: String,
        /// The reason.
        reason: &'static str,
    },
    /// There is no usable `/dev/net/tun`.
    DeviceMissing {
        /// The error of opening it.
        source: io::Error,
    },
    /// The process is not permitted to create network devices.
    NotPermitted {
        /// The step that was refused.
        step: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// An interface of this name exists, or every number of the pattern is taken.
    NameTaken {
        /// The requested name.
        name: String,
    },
    /// A second queue was requested for a device that was created for one.
    SingleQueue {
        /// The device.
        name: String,
    },
    /// The kernel does not accept the program that chooses queues for packets.
    Steering {
        /// The device.
        name: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// An inherited descriptor does not carry bare IP packets.
    Unusable {
        /// The device; empty if the descriptor has none.
        name: String,
        /// The reason.
        reason: &'static str,
    },
    /// The kernel refused for another reason.
    Kernel {
        /// The step that was refused.
        step: &'static str,
        /// The requested name.
        name: String,
        /// The kernel's error.
        source: io::Error,
    },
}

impl TunError {
    /// Returns the error for the kernel's answer to `step` for the interface `name`.
    pub(crate) fn from_kernel(step: &'static str, name: &str, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { step, source },
            Some(libc::EBUSY | libc::EEXIST | libc::ENFILE) => Self::NameTaken { name: name.to_owned() },
            _ => Self::Kernel { step, name: name.to_owned(), source },
        }
    }
}

impl fmt::Display for TunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidName { name, reason } => {
                write!(
                    f,
                    "cannot name a TUN device {name:?}: {reason}; choose 1 to 15 letters or digits, such as taut0"
                )
            }
            Self::DeviceMissing { source } => write!(
                f,
                "cannot open /dev/net/tun: {source}; load the kernel module (modprobe tun), \
                 or give the container the device (--device /dev/net/tun)"
            ),
            Self::NotPermitted { step, source } => write!(
                f,
                "cannot {step}: {source}; run as root, or give the program the capability CAP_NET_ADMIN \
                 (in a container: --cap-add NET_ADMIN)"
            ),
            Self::NameTaken { name } => write!(
                f,
                "cannot make a TUN device {name:?}: the name is taken; stop the program that uses it \
                 (ip link show {name}), or choose another name"
            ),
            Self::SingleQueue { name } => {
                write!(f, "cannot add a queue to {name}: it was created for one queue; create it for several")
            }
            Self::Steering { name, source } => write!(
                f,
                "cannot make the kernel choose queues of {name} by flow: {source}; give the program the capability CAP_BPF"
            ),
            Self::Unusable { name, reason } => write!(
                f,
                "cannot use the inherited descriptor of the device {name:?}: {reason}; pass one that was created with \
                 TUNSETIFF and the flags IFF_TUN and IFF_NO_PI"
            ),
            Self::Kernel { step, name, source } => write!(
                f,
                "cannot {step} for the TUN device {name:?}: {source}; try with offloads off, \
                 and see the kernel's log (dmesg)"
            ),
        }
    }
}

impl Error for TunError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::DeviceMissing { source }
            | Self::NotPermitted { source, .. }
            | Self::Steering { source, .. }
            | Self::Kernel { source, .. } => Some(source),
            Self::InvalidName { .. } | Self::NameTaken { .. } | Self::SingleQueue { .. } | Self::Unusable { .. } => {
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TunError;
    use std::io;

    #[test]
    fn every_refusal_says_what_to_do() {
        let cases =
            [(libc::EPERM, "CAP_NET_ADMIN"), (libc::EBUSY, "choose another name"), (libc::EINVAL, "offloads off")];
        for (code, advice) in cases {
            let error = TunError::from_kernel("make a device", "taut0", io::Error::from_raw_os_error(code));
            assert!(error.to_string().contains(advice), "{error}");
        }
    }
}
