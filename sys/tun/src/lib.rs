//! A TUN device: IP packets that the host sends to the overlay are read here, and those from the overlay are written
//! here.
//!
//! With its offloads granted, one read yields a *superpacket* of up to 64 KiB that the kernel would otherwise have cut
//! into packets itself, and one write takes one. Each such packet has a header of [`HEADER_LEN`] bytes in front
//! (`struct virtio_net_hdr`, include/uapi/linux/virtio_net.h) that says how to cut it and which checksum is still to be
//! computed:
//! - **checksum**: the kernel may hand out packets whose TCP or UDP checksum covers the pseudo header only;
//! - **TSO** (TCP, IPv4 and IPv6): runs of TCP segments come as one; this alone doubles throughput;
//! - **USO** (UDP, Linux 6.2): the same for UDP runs, which carries QUIC.
//!
//! Each is asked for by [`Offload`], has a kill switch there, and degrades instead of failing: [`Tun::offload`] says
//! what was granted.
//!
//! A device may have several queues. Which packet waits on which is a matter of its [`flow()`], which [`Tun::steer`] has the kernel go by.
//!
//! It promises: a device lives exactly as long as its [`Tun`] (closing it, also by a crash, removes it), nobody else's
//! device is taken over, and no call blocks.
//!
//! It refuses: looking into packets, and addresses, routes and MTU of the link (that is netlink's work).
#![expect(unsafe_code, reason = "a TUN device is configured by ioctl, and steered by a program for the kernel")]

mod device;
mod error;
mod flow;
mod ioctl;
mod offload;
mod steer;

pub use device::{Config, Tun};
pub use error::TunError;
pub use flow::flow;
pub use offload::Offload;

/// Bytes in front of each packet, in both directions, when [`Offload::vnet_header`] is granted: `struct virtio_net_hdr`
/// without the mergeable-buffers field. All its 16-bit fields are little-endian, on every host.
pub const HEADER_LEN: usize = 10;
