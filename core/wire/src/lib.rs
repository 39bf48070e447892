//! Packet formats as bytes, and the splitting and merging of superpackets.
//!
//! - [`wireguard`]: WireGuard's four messages, as views and as writers. No cryptography.
//! - [`control`]: messages between Taut nodes inside a session, beside the data.
//! - [`ip`], [`tcp`], [`udp`], [`icmp`]: checked views of inner packets; echo requests and replies.
//! - [`checksum`]: the Internet checksum, written so that the compiler vectorises it.
//! - [`vnet`]: the ten bytes in front of every packet of a TUN with offloads.
//! - [`ecn`]: explicit congestion notification through the tunnel.
//! - [`forwarded`], [`proxy`]: the client's address behind a reverse proxy, from a request's headers or from the PROXY protocol.
//! - [`stun`]: the address of a socket as a server sees it.
//! - [`websocket`]: the frames of a WebSocket, at the client's end.
//! - [`split`]: a superpacket from the TUN, segment by segment, straight into a send buffer.
//! - [`pieces`]: a packet that is too long for its path, in several messages.
//! - [`mss`]: the segment size that new TCP connections announce, lowered to the MTU.
//! - [`partial_checksum`]: the flag of packets whose checksum was never computed.
//! - [`relay`]: the header of a datagram that goes through a relay.
//! - [`merge`]: received packets joined into superpackets, as slices for one `writev`.
//!
//! It promises: no panic on any input, no allocation, no `unsafe`, no IO, no clock. Lengths in headers are checked against the bytes that exist, and every
//! refusal has a name that a caller can count.
//! It refuses: changes to the content of an inner packet, except for the segment size of a new TCP connection. A packet is merged only if its checksums were verified, or if the authenticated peer sent it with a
//! partial checksum. A packet that cannot be merged keeps its bytes.

mod bytes;
pub mod checksum;
pub mod control;
pub mod ecn;
pub mod forwarded;
pub mod icmp;
pub mod ip;
pub mod merge;
pub mod mss;
pub mod partial_checksum;
pub mod pieces;
pub mod proxy;
pub mod relay;
pub mod split;
pub mod stun;
pub mod tcp;
#[cfg(test)]
mod testkit;
pub mod udp;
pub mod vnet;
pub mod websocket;
pub mod wireguard;
