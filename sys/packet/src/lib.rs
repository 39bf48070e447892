//! Whole Ethernet frames to and from one interface, many per system call (man 7 packet).
//!
//! - **In**: every frame that reaches the interface from outside, for any receiver, with its age, and a mark if its checksum was left to a
//!   network card. Frames that this host sends through the interface are not seen.
//! - **Out**: frames are sent unchanged, past the queueing disciplines (`PACKET_QDISC_BYPASS`).
//! - **Superpackets**, on request: a virtio header in front of each frame, in both directions (`PACKET_VNET_HDR`), so that the kernel does not
//!   split them.
//!
//! It promises: nothing blocks; frames that found no room are counted ([`PacketSocket::missed`]); a truncated frame has its full length in its metadata.
//!
//! It refuses: VLAN tags, which the kernel removes and which are not added again; waiting (give the socket to a poller).
#![expect(unsafe_code, reason = "packet sockets, recvmmsg and sendmmsg are reached through libc")]

mod batch;
mod option;
mod socket;

pub use batch::{FrameBatch, ReceivedFrame};
pub use socket::{PacketConfig, PacketSocket, PacketSocketError};

/// Most frames per system call, in both directions.
pub const MAX_FRAMES: usize = 64;

/// Bytes of the virtio header in front of a frame, if superpackets are requested (`struct virtio_net_hdr`, include/uapi/linux/virtio_net.h).
pub const VIRTIO_HEADER: usize = 10;
