//! The network of a node without a TUN device (`taut daemon --tun userspace`): a TCP/IP stack of its own, and what programs use instead of the kernel's.
//!
//! ```text
//! programs of this host ── SOCKS5, HTTP, forwarded ports ──▶ Server ── Stack (smoltcp) ── one packet per message ── the lane of `taut daemon`
//!              programs ◀── published ports ────────────────┘
//! ```
//! - [`run`] is all of it: one thread, one epoll;
//! - `server`: the loop, and what the daemon says;
//! - `services`: the listening sockets of this host;
//! - `connection`: one connection, from its first byte to its last, with `handshake` for what a proxy's client says;
//! - `relay`: bytes between a socket of this host and one of the stack;
//! - `stack`: addresses, ports and sockets in the overlay, over `device`;
//! - `names`: questions to the node's own name server;
//! - `shares`: the connections that each client may have.
//!
//! It promises: nothing here needs a right; what a client, a peer or the daemon sends is bounded in memory, and a slow reader slows its own sender; a connection that one side
//! reset is reset at the other, so that no stream that was cut looks complete.
//!
//! It refuses: destinations outside of the overlay, and more connections than its limits.

mod connection;
mod device;
mod handshake;
mod names;
mod relay;
mod report;
mod server;
mod services;
mod shares;
mod stack;

pub use server::run;
