//! A network without a TUN device (`--tun userspace`): the program `taut-userspace` has the TCP/IP stack, and this host is not changed. docs/internals/userspace.md explains it.

#[cfg(feature = "userspace")]
mod program;
#[cfg(not(feature = "userspace"))]
#[path = "no_program.rs"]
mod program;

use std::net::IpAddr;

use taut_base::Prefix;

pub(crate) use program::Userspace;
pub use program::conflict;

/// The facts about the network that `taut-userspace` is told whenever they change.
#[cfg_attr(not(feature = "userspace"), expect(dead_code, reason = "no program takes it"))]
pub(crate) struct UserspaceNetwork {
    /// This node's overlay addresses.
    pub(crate) addresses: Vec<IpAddr>,
    /// MTU in bytes.
    pub(crate) mtu: u16,
    /// The addresses to which its proxies and forwards may connect.
    pub(crate) reachable: Vec<Prefix>,
    /// Where the node answers questions for names.
    pub(crate) name_servers: Vec<IpAddr>,
    /// The domain of the network's names.
    pub(crate) zone: String,
}
