//! Creates a device, and reads and writes its packets.

use taut_base::Placement;

use crate::ioctl::NAME_MAX;
use crate::{HEADER_LEN, Offload, TunError, ioctl};
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

/// The device to create.
#[derive(Clone, Debug)]
pub struct TunConfig {
    /// Its name, or a pattern with one `%d` for which the kernel puts the first free number, such as `taut%d`.
    pub name: String,
    /// The offloads to request; `false` switches one off.
    pub offload: Offload,
    /// True if [`Tun::add_queue`] may add queues.
    pub multi_queue: bool,
}

/// One queue of a TUN device. The device is removed when its last queue is dropped.
#[derive(Debug)]
pub struct Tun {
    file: File,
    name: String,
    offload: Offload,
    multi_queue: bool,
}

impl Tun {
    /// Creates a device. It is down and has no address. Offloads that the kernel lacks are left out, see
    /// [`offload`](Self::offload).
    pub fn create(config: &TunConfig) -> Result<Self, TunError> {
        check_name(&config.name)?;
        let asked = config.offload.consistent();
        if asked.vnet_header {
            match Self::with_header(config, asked) {
                // If the kernel refuses a flag or the header itself, the device has no offloads.
                Err(TunError::Kernel { .. }) => {}
                answer => return answer,
            }
        }
        let (file, name) = open(config, libc::IFF_TUN_EXCL)?;
        Ok(Self { file, name, offload: Offload::NONE, multi_queue: config.multi_queue })
    }

    /// Takes over a queue that another program opened, and makes it non-blocking. Offloads are granted only if the device has a
    /// header in front of its packets.
    ///
    /// The device must have been created with `IFF_NO_PI`. That cannot be checked: the kernel reports the flag for every device.
    ///
    /// # Errors
    /// [`TunError::Unusable`] if the descriptor is not a TUN device of bare IP packets.
    pub fn from_fd(fd: OwnedFd, offload: Offload) -> Result<Self, TunError> {
        let file = File::from(fd);
        let unusable = |name: &str, reason| TunError::Unusable { name: name.to_owned(), reason };
        let (name, flags) = ioctl::describe(&file).map_err(|_| unusable("", "it is not a queue of a TUN device"))?;
        if flags & libc::IFF_TUN == 0 {
            return Err(unusable(&name, "it carries Ethernet frames (TAP)"));
        }
        let refused = |source| TunError::from_kernel("take over the inherited queue", &name, source);
        ioctl::set_nonblocking(&file).map_err(refused)?;
        let multi_queue = flags & libc::IFF_MULTI_QUEUE != 0;
        if flags & libc::IFF_VNET_HDR == 0 {
            return Ok(Self { file, name, offload: Offload::NONE, multi_queue });
        }
        // The header belongs to the device, and stays even if no offload is requested.
        Self::settle(file, name, Offload { vnet_header: true, ..offload }.consistent(), multi_queue)
    }

    /// Makes a device of one end of a [`packet_pair`](crate::packet_pair()): the other end belongs to a program that takes the place of the kernel's network stack. Each message is
    /// one packet, with a header in front if `offload` has one. Both ends must agree on `offload`; there are no other queues.
    ///
    /// # Errors
    /// If the descriptor cannot be made non-blocking.
    pub fn from_packet_socket(fd: OwnedFd, name: &str, offload: Offload) -> io::Result<Self> {
        let file = File::from(fd);
        ioctl::set_nonblocking(&file)?;
        Ok(Self { file, name: name.to_owned(), offload: offload.consistent(), multi_queue: false })
    }

    /// Opens another queue of the same device, with the same offloads. The kernel spreads flows over all queues, and
    /// sends the replies of a flow to the queue on which it was last written.
    pub fn add_queue(&self) -> Result<Self, TunError> {
        if !self.multi_queue {
            return Err(TunError::SingleQueue { name: self.name.clone() });
        }
        let config = TunConfig { name: self.name.clone(), offload: self.offload, multi_queue: true };
        // Offloads and header length belong to the device, so the new queue has them already.
        let (file, name) = open(&config, 0)?;
        Ok(Self { file, name, offload: self.offload, multi_queue: true })
    }

    /// Makes the kernel put each packet on the queue whose number, in the order of creation, is the lane of its [flow](crate::flow()). A flow then keeps its
    /// queue, whichever queue its replies are written to. All queues must stay open. With [`Placement::FIRST`] all packets are on the first queue.
    ///
    /// # Errors
    /// [`TunError::Steering`] if such programs are not permitted, or not supported (before Linux 4.16).
    pub fn steer(&self, placement: Placement) -> Result<(), TunError> {
        let refused = |source| TunError::Steering { name: self.name.clone(), source };
        let program = crate::steer::load(placement).map_err(refused)?;
        ioctl::set_steering(&self.file, program.as_fd()).map_err(refused)
    }

    /// As [`Self::steer`], but by the last four bytes of the packet's destination address, as a big-endian number modulo `queues`.
    ///
    /// # Errors
    /// As for [`Self::steer`].
    pub fn steer_by_destination(&self, queues: u8) -> Result<(), TunError> {
        let refused = |source| TunError::Steering { name: self.name.clone(), source };
        let program = crate::steer::load_by_destination(queues).map_err(refused)?;
        ioctl::set_steering(&self.file, program.as_fd()).map_err(refused)
    }

    /// Returns another handle of this queue, which keeps the device alive if this one is dropped. Only one of the two should read.
    pub fn try_clone(&self) -> io::Result<Self> {
        let file = self.file.try_clone()?;
        Ok(Self { file, name: self.name.clone(), offload: self.offload, multi_queue: self.multi_queue })
    }

    /// Returns the offloads that the kernel granted.
    pub fn offload(&self) -> Offload {
        self.offload
    }

    /// Returns the interface's name at creation.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the interface's current name, which an administrator may have changed.
    pub fn current_name(&self) -> io::Result<String> {
        ioctl::describe(&self.file).map(|(name, _)| name)
    }

    /// Returns the network namespace that the device is in now, which may differ from the one it was created in. Needs Linux
    /// 5.2, and `CAP_NET_ADMIN` in that namespace.
    pub fn namespace(&self) -> io::Result<OwnedFd> {
        ioctl::namespace(&self.file)
    }

    /// Returns true if the device still exists. A device that was renamed or moved to another network namespace exists, although
    /// netlink reports a moved device as removed.
    pub fn exists(&self) -> bool {
        ioctl::is_attached(&self.file)
    }

    /// Reads one packet, with [`HEADER_LEN`] bytes of header in front if [`Offload::vnet_header`] is granted.
    /// Fails with `WouldBlock` if no packet waits. A packet that does not fit `buffer` is truncated, so give it 65,536 +
    /// [`HEADER_LEN`] bytes. `EBADFD` means that the device was removed, and `UnexpectedEof` that the program at the other end of a packet
    /// socket has ended.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match (&self.file).read(buffer) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            answer => answer,
        }
    }

    /// Writes one packet, with its header if granted. The kernel takes the whole packet or fails: `InvalidInput` for a packet
    /// that it does not understand (some kernels also refuse valid superpackets; the caller then stops merging), `EIO` while
    /// the interface is down.
    pub fn write(&self, packet: &[u8]) -> io::Result<usize> {
        (&self.file).write(packet)
    }

    /// Writes one packet that lies in several pieces (header, payloads), without a copy that joins them. At most 1,024
    /// pieces (`UIO_MAXIOV`).
    pub fn write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        (&self.file).write_vectored(pieces)
    }

    fn with_header(config: &TunConfig, asked: Offload) -> Result<Self, TunError> {
        let (file, name) = open(config, libc::IFF_VNET_HDR | libc::IFF_TUN_EXCL)?;
        Self::settle(file, name, asked, config.multi_queue)
    }

    /// Sets the length and byte order of the header, and requests offloads.
    fn settle(file: File, name: String, asked: Offload, multi_queue: bool) -> Result<Self, TunError> {
        let refused = |source| TunError::from_kernel("set the packet header", &name, source);
        ioctl::set_header_length(&file, HEADER_LEN).map_err(refused)?;
        match ioctl::set_little_endian(&file) {
            // An old kernel uses the host's byte order, which is little-endian here.
            Err(_) if cfg!(target_endian = "little") => {}
            answer => answer.map_err(refused)?,
        }
        for offload in asked.ladder() {
            if ioctl::set_offload(&file, offload.bits()).is_ok() {
                return Ok(Self { file, name, offload, multi_queue });
            }
        }
        // The kernel lacks the request itself, so the device has no offloads.
        let offload = Offload { vnet_header: true, ..Offload::NONE };
        Ok(Self { file, name, offload, multi_queue })
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Opens `/dev/net/tun` and turns it into a queue. With the flag `IFF_TUN_EXCL` the kernel refuses to take over an existing
/// device.
fn open(config: &TunConfig, flags: libc::c_int) -> Result<(File, String), TunError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")
        .map_err(cannot_open)?;
    let queues = if config.multi_queue { libc::IFF_MULTI_QUEUE } else { 0 };
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | queues | flags;
    let name = ioctl::attach(&file, &config.name, flags)
        .map_err(|source| TunError::from_kernel("make a TUN device", &config.name, source))?;
    Ok((file, name))
}

fn cannot_open(source: io::Error) -> TunError {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => TunError::NotPermitted { step: "open /dev/net/tun", source },
        _ => TunError::DeviceMissing { source },
    }
}

/// Refuses the names that the kernel refuses (`dev_valid_name`, net/core/dev.c), and unprintable ones. The kernel's answer is
/// EINVAL, as for a missing offload, so the name is checked first.
fn check_name(name: &str) -> Result<(), TunError> {
    let reason = if name.is_empty() || name.len() > NAME_MAX {
        "it must have 1 to 15 bytes"
    } else if name == "." || name == ".." {
        "it is the name of a directory"
    } else if !name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/' && byte != b':') {
        "it contains a space, a slash, a colon or an unprintable character"
    } else if name.replacen("%d", "", 1).contains('%') {
        "a per cent sign is allowed only in one %d"
    } else {
        return Ok(());
    };
    Err(TunError::InvalidName { name: name.to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use super::{cannot_open, check_name};
    use std::io;

    #[test]
    fn names_are_checked_before_the_kernel_is_asked() {
        for good in ["taut0", "taut%d", "a", "fifteen-letters", "tun.5"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "sixteen-letters-", ".", "..", "a/b", "a b", "a:b", "a\0", "t%d%d", "t%s", "täut"] {
            let error = check_name(bad).unwrap_err().to_string();
            assert!(error.contains("choose"), "{error}");
        }
    }

    #[test]
    fn a_missing_device_is_not_a_missing_right() {
        let message = |code| cannot_open(io::Error::from_raw_os_error(code)).to_string();
        assert!(message(libc::ENOENT).contains("modprobe tun"));
        assert!(message(libc::ENODEV).contains("modprobe tun"));
        assert!(message(libc::EACCES).contains("CAP_NET_ADMIN"));
    }
}
