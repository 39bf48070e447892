//! WireGuard's configuration protocol (its cross-platform userspace interface, "UAPI"): what `wg` says over a unix socket, and what it hears.
//!
//! ```text
//! get=1 ⏎ ⏎                                        ─▶  private_key=… ⏎ … errno=0 ⏎ ⏎     [`Device::print`]
//! set=1 ⏎ private_key=… ⏎ public_key=… ⏎ … ⏎ ⏎     ─▶  errno=0 ⏎ ⏎                       [`Errno::print`]
//! ```
//! It stands here and not in `taut-wire`, because it holds keys and lists, and a [`Node`](crate::Node) is what it configures.
//!
//! It promises: no text is a surprise; one that is not understood to the last letter changes nothing. It refuses to resolve names: an
//! endpoint is a numeric address.

mod parse;
mod print;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use taut_base::{Prefix, PresharedKey, PrivateKey, PublicKey};
use zeroize::Zeroizing;

pub use parse::Inbox;

/// A text that may hold secrets; wiped when dropped.
pub type Answer = Zeroizing<String>;

/// Longest request, in bytes. A peer takes about 300, so this has room for the most peers a node may have.
pub const MAX_REQUEST: usize = 32 * 1024 * 1024;

/// What is asked.
pub enum Request {
    /// Everything, with figures.
    Get,
    /// A change.
    Set(Box<Set>),
}

/// A change of an interface. What is `None` stays as it is.
#[derive(Default, PartialEq, Eq)]
pub struct Set {
    /// The interface's key; `Some(None)` takes it away.
    pub private_key: Option<Option<PrivateKey>>,
    /// The UDP port; 0 lets the kernel choose.
    pub listen_port: Option<u16>,
    /// Mark of what is sent, for policy routing; 0 for none.
    pub fwmark: Option<u32>,
    /// All peers go before those below come.
    pub replace_peers: bool,
    /// Changes of peers, in order.
    pub peers: Vec<PeerChange>,
}

/// A change of one peer, which is made if there is none with this key. What is `None` stays as it is.
#[derive(PartialEq, Eq)]
pub struct PeerChange {
    /// Who.
    pub key: PublicKey,
    /// The peer goes; the rest says nothing then.
    pub remove: bool,
    /// Only if there is such a peer already.
    pub update_only: bool,
    /// Mixed into handshakes from the next one on.
    pub preshared: Option<PresharedKey>,
    /// Where to reach it.
    pub endpoint: Option<SocketAddr>,
    /// The interface that a link-local endpoint is behind, where it has a name: the endpoint is of no use before its number is put in.
    pub zone: Option<String>,
    /// Interval of unconditional keepalives; `Some(None)` ends them.
    pub keepalive: Option<Option<Duration>>,
    /// All its allowed IPs go before those below come.
    pub replace_allowed: bool,
    /// Allowed IPs that come, from whomever had them, and (`false`) that go, in order.
    pub allowed: Vec<(Prefix, bool)>,
}

impl PeerChange {
    /// The peer, otherwise as it is.
    pub fn new(key: PublicKey) -> Self {
        Self {
            key,
            remove: false,
            update_only: false,
            preshared: None,
            endpoint: None,
            zone: None,
            keepalive: None,
            replace_allowed: false,
            allowed: Vec::new(),
        }
    }
}

/// An interface as it is.
pub struct Device<'a> {
    /// Its key, if it has one.
    pub private_key: Option<&'a PrivateKey>,
    /// Its UDP port; 0 for none yet.
    pub listen_port: u16,
    /// Mark of what it sends; 0 for none.
    pub fwmark: u32,
    /// Its peers.
    pub peers: Vec<Peer<'a>>,
}

/// A peer as it is.
pub struct Peer<'a> {
    /// Who.
    pub key: PublicKey,
    /// Mixed into handshakes.
    pub preshared: &'a PresharedKey,
    /// Where packets go to it.
    pub endpoint: Option<SocketAddr>,
    /// The name of the interface that a link-local endpoint is behind; without one its number is shown.
    pub zone: Option<String>,
    /// When the last handshake ended, by the wall clock; zero for never.
    pub last_handshake: Duration,
    /// Bytes received, of WireGuard's messages.
    pub received: u64,
    /// Bytes sent, of WireGuard's messages.
    pub sent: u64,
    /// Interval of unconditional keepalives.
    pub keepalive: Option<Duration>,
    /// Its allowed IPs.
    pub allowed: Vec<Prefix>,
}

/// Why a request failed, as Linux numbers it (include/uapi/asm-generic/errno-base.h and errno.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Errno {
    /// Something outside failed.
    Io = 5,
    /// There is no room for that many.
    NoMemory = 12,
    /// Not permitted.
    Access = 13,
    /// No interface has this name.
    NoDevice = 19,
    /// Not understood, or impossible.
    Invalid = 22,
    /// A line that is no `KEY=VALUE`.
    Protocol = 71,
    /// Another program has the port.
    AddressInUse = 98,
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Io => "the kernel refused; see what taut wg printed",
            Self::NoMemory => "too many peers for one interface; remove some first",
            Self::Access => "not permitted; taut wg needs CAP_NET_ADMIN, as root has it",
            Self::NoDevice => "an endpoint names an interface that is not there; see `ip link`",
            Self::Protocol => "a line is no KEY=VALUE",
            Self::Invalid => "a key, a value or a line is not understood",
            Self::AddressInUse => "another program has this UDP port; choose another listen_port",
        })
    }
}

impl Error for Errno {}
