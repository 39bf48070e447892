//! WireGuard's configuration protocol (its cross-platform userspace interface, "UAPI"), which `wg` speaks over a unix socket.
//!
//! ```text
//! get=1 ⏎ ⏎                                        ─▶  private_key=… ⏎ … errno=0 ⏎ ⏎     [`Interface::print`]
//! set=1 ⏎ private_key=… ⏎ public_key=… ⏎ … ⏎ ⏎     ─▶  errno=0 ⏎ ⏎                       [`Errno::print`]
//! ```
//! The protocol is in this crate instead of `taut-wire`, because it contains keys and lists, and because it configures a [`Node`](crate::Node).
//!
//! Any text is a valid input; a request that is not understood completely changes nothing. Names are not resolved: an endpoint is a numeric address.

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

pub use parse::RequestBuffer;

/// The text of a reply, which may contain secrets. It is wiped when dropped.
pub type Reply = Zeroizing<String>;

/// Maximum length of a request in bytes, 32 MiB. A peer takes about 300 bytes, so the maximum number of peers fits in.
pub const MAX_REQUEST: usize = 32 * 1024 * 1024;

/// A request of a client.
pub enum Request {
    /// Reads the configuration and the counters.
    Get,
    /// Changes the configuration.
    Set(Box<Set>),
}

/// A change of an interface. A field that is `None` stays unchanged.
#[derive(Default, PartialEq, Eq)]
pub struct Set {
    /// The interface's key; `Some(None)` removes it.
    pub private_key: Option<Option<PrivateKey>>,
    /// The UDP port; 0 lets the kernel choose.
    pub listen_port: Option<u16>,
    /// The mark of sent datagrams, for policy routing; 0 for none.
    pub fwmark: Option<u32>,
    /// Whether all peers are removed before the changes below.
    pub replace_peers: bool,
    /// Changes of peers, in order.
    pub peers: Vec<PeerChange>,
}

/// A change of one peer, which is added if no peer has this key. A field that is `None` stays unchanged.
#[derive(PartialEq, Eq)]
pub struct PeerChange {
    /// The peer's key.
    pub key: PublicKey,
    /// Whether the peer is removed; the other fields are ignored then.
    pub remove: bool,
    /// Whether the change applies only if the peer exists.
    pub update_only: bool,
    /// The preshared key, used from the next handshake on.
    pub preshared: Option<PresharedKey>,
    /// The peer's endpoint.
    pub endpoint: Option<SocketAddr>,
    /// The name of the interface of a link-local endpoint. The endpoint is usable only after the interface's number was added to it.
    pub zone: Option<String>,
    /// Interval of unconditional keepalives; `Some(None)` disables them.
    pub keepalive: Option<Option<Duration>>,
    /// Whether all allowed IPs of the peer are removed before the changes below.
    pub replace_allowed: bool,
    /// Allowed IPs that are added (`true`), even if another peer has them, and removed (`false`), in order.
    pub allowed: Vec<(Prefix, bool)>,
}

impl PeerChange {
    /// Creates a change that changes nothing of the peer.
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

/// The configuration and the counters of an interface.
pub struct Interface<'a> {
    /// The interface's private key, if it has one.
    pub private_key: Option<&'a PrivateKey>,
    /// The UDP port; 0 if the interface has none yet.
    pub listen_port: u16,
    /// The mark of sent datagrams; 0 for none.
    pub fwmark: u32,
    /// The peers.
    pub peers: Vec<InterfacePeer<'a>>,
}

/// The configuration and the counters of a peer.
pub struct InterfacePeer<'a> {
    /// The peer's key.
    pub key: PublicKey,
    /// The preshared key.
    pub preshared: &'a PresharedKey,
    /// The endpoint that packets to the peer go to.
    pub endpoint: Option<SocketAddr>,
    /// The name of the interface of a link-local endpoint; `None` prints the interface's number.
    pub zone: Option<String>,
    /// Time of the last handshake by the wall clock; zero for never.
    pub last_handshake: Duration,
    /// Bytes of received WireGuard messages.
    pub received: u64,
    /// Bytes of sent WireGuard messages.
    pub sent: u64,
    /// Interval of unconditional keepalives.
    pub keepalive: Option<Duration>,
    /// The allowed IPs.
    pub allowed: Vec<Prefix>,
}

/// The reason of a failed request, with its number in Linux (include/uapi/asm-generic/errno-base.h and errno.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Errno {
    /// The kernel refused a step.
    Io = 5,
    /// There are too many peers.
    NoMemory = 12,
    /// The process lacks a permission.
    Access = 13,
    /// No interface has this name.
    NoDevice = 19,
    /// A key, a value or a line is not understood, or the change is impossible.
    Invalid = 22,
    /// A line is not of the form `KEY=VALUE`.
    Protocol = 71,
    /// Another program uses the UDP port.
    AddressInUse = 98,
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Io => "the kernel refused a step; `taut wg` printed the reason",
            Self::NoMemory => "the interface has too many peers; remove some first",
            Self::Access => "`taut wg` is not permitted to do this; it needs CAP_NET_ADMIN: run it as root",
            Self::NoDevice => "an endpoint names an interface that does not exist; `ip link` lists the interfaces",
            Self::Protocol => "a line is not of the form KEY=VALUE",
            Self::Invalid => "a key, a value or a line is not understood",
            Self::AddressInUse => "another program uses this UDP port; choose another listen_port",
        })
    }
}

impl Error for Errno {}
