//! Whole Ethernet frames to and from one interface, many per system call (man 7 packet).
//!
//! - **In**: every frame that reaches the interface from outside, whoever it is for, with its age and with what the kernel has left undone on it
//!   (a checksum that a network card was to compute). What this host sends by the interface itself is not seen.
//! - **Out**: as it is, past the queueing disciplines (`PACKET_QDISC_BYPASS`).
//! - **Superpackets**, on request: a virtio header in front of each frame, in both directions (`PACKET_VNET_HDR`), so that what the kernel had put
//!   together stays together.
//!
//! It promises: nothing blocks; frames that found no room are counted ([`PacketSocket::missed`]); a frame longer than its buffer says so.
//!
//! It refuses: VLAN tags, which the kernel takes off and which are not put on again; waiting (give the socket to a poller).
#![expect(unsafe_code, reason = "packet sockets, recvmmsg and sendmmsg are reached through libc")]

mod batch;
mod option;
mod socket;

pub use batch::{Batch, Received};
pub use socket::{Config, OpenError, PacketSocket};

/// Most frames per system call, in both directions.
pub const MAX_FRAMES: usize = 64;

/// Bytes of the virtio header in front of a frame, where superpackets are wanted (`struct virtio_net_hdr`, include/uapi/linux/virtio_net.h).
pub const VIRTIO_HEADER: usize = 10;
