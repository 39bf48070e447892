//! A TUN device: the program reads IP packets that the host sends to the overlay, and writes packets from the overlay.
//!
//! With its offloads granted, one read returns a *superpacket* of up to 64 KiB that the kernel would otherwise split
//! into packets, and one write takes one. Each such packet has a header of [`HEADER_LEN`] bytes in front
//! (`struct virtio_net_hdr`, include/uapi/linux/virtio_net.h) that says how to split it and which checksum is not computed
//! yet:
//! - **checksum**: the kernel may deliver packets with a partial checksum, which covers only the pseudo header of TCP or UDP;
//! - **TSO** (TCP, IPv4 and IPv6): runs of TCP segments arrive as one packet; this alone doubles throughput;
//! - **USO** (UDP, Linux 6.2): the same for UDP runs, which carries QUIC.
//!
//! [`Offload`] requests each of them and can switch it off. An offload that the kernel lacks is left out: [`Tun::offload`] returns
//! what was granted.
//!
//! Where there is no TUN device, [`packet_pair()`] connects two programs in its place, and [`Tun::from_packet_socket`] reads and writes like a device.
//!
//! A device may have several queues. With [`Tun::steer`] the kernel chooses the queue of a packet by its [`flow()`].
//!
//! It promises: a device lives exactly as long as its [`Tun`] (closing it, also by a crash, removes it), devices of other
//! programs are never taken over, and no call blocks.
//!
//! It refuses: inspecting packets, and setting addresses, routes and MTU of the link (see netlink).
#![expect(unsafe_code, reason = "a TUN device is configured by ioctl, and steered by a program for the kernel")]

mod device;
mod error;
mod flow;
mod ioctl;
mod offload;
mod packet_pair;
mod steer;

pub use device::{Tun, TunConfig};
pub use error::TunError;
pub use flow::flow;
pub use offload::Offload;
pub use packet_pair::packet_pair;

/// Bytes in front of each packet, in both directions, when [`Offload::vnet_header`] is granted: `struct virtio_net_hdr`
/// without the mergeable-buffers field. All its 16-bit fields are little-endian, on every host.
pub const HEADER_LEN: usize = 10;
