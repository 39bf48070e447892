//! Bytes: what stands in a packet, and how one packet becomes many and many become one.
//!
//! - [`wireguard`]: WireGuard's four messages, as views and as writers. No cryptography.
//! - [`control`]: what Taut nodes say to each other inside a session, beside the data.
//! - [`ip`], [`tcp`], [`udp`], [`icmp`]: checked views of inner packets; echo requests and replies.
//! - [`checksum`]: the Internet checksum, written so that the compiler vectorises it.
//! - [`vnet`]: the ten bytes in front of every packet of a TUN with offloads.
//! - [`ecn`]: congestion marks through the tunnel.
//! - [`forwarded`], [`proxy`]: the client's address as a reverse proxy tells it, in a request or in front of a connection.
//! - [`stun`]: where are we, as a server sees it.
//! - [`split`]: a superpacket from the TUN, segment by segment, straight into a send buffer.
//! - [`partial_checksum`]: the mark of packets whose checksum was never computed.
//! - [`relay`]: what stands in front of a datagram that goes by a relay.
//! - [`merge`]: received packets back into superpackets, as slices for one `writev`.
//!
//! It promises: no panic on any input, no allocation, no `unsafe`, no IO, no clock. Lengths in headers are
//! checked against the bytes that are there, and every refusal has a name that a caller can count.
//! It refuses: everything that would change an inner packet that nobody vouched for. Nothing is merged before its
//! checksums were verified or the peer vouched for them, and what cannot be merged keeps its bytes.

mod bytes;
pub mod checksum;
pub mod control;
pub mod ecn;
pub mod forwarded;
pub mod icmp;
pub mod ip;
pub mod merge;
pub mod partial_checksum;
pub mod proxy;
pub mod relay;
pub mod split;
pub mod stun;
pub mod tcp;
#[cfg(test)]
mod testkit;
pub mod udp;
pub mod vnet;
pub mod wireguard;
