//! One UDP socket that moves many datagrams per system call.
//!
//! - **Dual stack**: one IPv6 socket that also speaks IPv4, or a plain IPv4 socket where the host has no IPv6. Callers
//!   see IPv4 addresses as IPv4 in either case.
//! - **GSO** (`UDP_SEGMENT`, Linux 4.18): a run of equal datagrams goes through the kernel as one, which is what makes sending
//!   fast.
//! - **GRO** (`UDP_GRO`, Linux 5.0): a run of equal datagrams arrives as one, which is what makes receiving fast.
//! - **Batches** (`sendmmsg`, `recvmmsg`): runs to and from different peers share a system call.
//! - **Own addresses** (`IP_PKTINFO`, `IPV6_PKTINFO`): each datagram has the local address that it came to, and an answer
//!   can leave from that address.
//! - **Buffers** forced beyond the system's limit where allowed, and read back.
//!
//! It promises: GSO and GRO are probed, can be switched off, and are left out if missing; one bad destination
//! never stops a batch; nothing is allocated per call; no call blocks; order per destination is kept.
//!
//! It refuses: connecting, looking into datagrams (but the kernel may, see [`UdpSocket::bind_chosen`]), remembering destinations, waiting (give the socket to a poller).
//!
//! # Don't Fragment
//! Every datagram carries it (`IP_PMTUDISC_PROBE`, see [`UdpSocket::allow_fragmentation`]).
#![expect(unsafe_code, reason = "sendmmsg, recvmmsg and socket options are reached through libc")]

mod address;
mod choice;
mod control;
mod error;
mod local;
mod mapping;
mod option;
mod receive;
mod send;
mod socket;

pub use choice::SocketChoice;
pub use error::BindError;
pub use local::Local;
pub use receive::{ReceiveBatch, ReceivedRun};
pub use send::{Sent, Transmit};
pub use socket::{Buffers, Features, UdpConfig, UdpSocket};

/// Most datagrams in one GSO run: `UDP_MAX_SEGMENTS` of include/linux/udp.h before Linux 6.9, which doubled it.
pub const MAX_SEGMENTS: usize = 64;

/// Most bytes in one GSO run: 65,535 (the kernel sends a run whole only if it is shorter than a device's usual `gso_max_size`
/// of 65,536, link header included, and cuts longer runs up itself before they leave) less the headers of Ethernet with
/// a VLAN tag (18), IPv6 (40) and UDP (8).
pub const MAX_GSO_BYTES: usize = 65_469;

/// Most messages per system call, in both directions: 64 runs of 64 datagrams outlast any scheduling gap, and the
/// kernel's descriptions of them still fit on the stack (10 KiB).
pub const MAX_MESSAGES: usize = 64;

/// Bytes of one receive buffer: more than any datagram or GRO run, whose length has 16 bits.
pub const BUFFER_LEN: usize = 65_536;
