//! Making a device, and reading and writing its packets.

use crate::ioctl::NAME_MAX;
use crate::{HEADER_LEN, Offload, TunError, ioctl};
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

/// What device to make.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its name, or a pattern with one `%d` for which the kernel puts the first free number, such as `taut%d`.
    pub name: String,
    /// The offloads to ask for; each `false` is a kill switch.
    pub offload: Offload,
    /// Whether further queues may be added by [`Tun::add_queue`].
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
    /// Makes a device. It is down and has no address yet. Offloads that the kernel does not have are left out, see
    /// [`offload`](Self::offload).
    pub fn create(config: &Config) -> Result<Self, TunError> {
        check_name(&config.name)?;
        let asked = config.offload.consistent();
        if asked.vnet_header {
            match Self::with_header(config, asked) {
                // The kernel refuses a flag or the header itself: a device without is better than none.
                Err(TunError::Kernel { .. }) => {}
                answer => return answer,
            }
        }
        let (file, name) = open(config, libc::IFF_TUN_EXCL)?;
        Ok(Self { file, name, offload: Offload::NONE, multi_queue: config.multi_queue })
    }

    /// Takes over a queue that somebody else made, and makes it non-blocking. `offload` is granted as far as the device has a
    /// header in front of its packets; without one there are none.
    ///
    /// The device must have been made with `IFF_NO_PI`. That cannot be checked: asked by a queue, the kernel says so of every device.
    ///
    /// # Errors
    /// [`TunError::Unusable`] for what is not a TUN device of bare IP packets.
    pub fn from_fd(fd: OwnedFd, offload: Offload) -> Result<Self, TunError> {
        let file = File::from(fd);
        let unusable = |name: &str, reason| TunError::Unusable { name: name.to_owned(), reason };
        let (name, flags) = ioctl::describe(&file).map_err(|_| unusable("", "it is no queue of a TUN device"))?;
        if flags & libc::IFF_TUN == 0 {
            return Err(unusable(&name, "it carries Ethernet frames (TAP)"));
        }
        let refused = |source| TunError::from_kernel("take over the inherited queue", &name, source);
        ioctl::set_nonblocking(&file).map_err(refused)?;
        let multi_queue = flags & libc::IFF_MULTI_QUEUE != 0;
        if flags & libc::IFF_VNET_HDR == 0 {
            return Ok(Self { file, name, offload: Offload::NONE, multi_queue });
        }
        // The header is the device's, and stays also when no offload is wanted.
        Self::settle(file, name, Offload { vnet_header: true, ..offload }.consistent(), multi_queue)
    }

    /// Opens one more queue of the same device, with the same offloads. The kernel spreads flows over all queues, and
    /// sends a flow's replies to the queue on which it was last written.
    pub fn add_queue(&self) -> Result<Self, TunError> {
        if !self.multi_queue {
            return Err(TunError::SingleQueue { name: self.name.clone() });
        }
        let config = Config { name: self.name.clone(), offload: self.offload, multi_queue: true };
        // Offloads and header length belong to the device, so the new queue has them already.
        let (file, name) = open(&config, 0)?;
        Ok(Self { file, name, offload: self.offload, multi_queue: true })
    }

    /// Has packets of the host wait on the queue that their [flow](crate::flow()) modulo `queues` says, counted in the order in which the queues were
    /// made. A flow so keeps its queue, whatever is written on which; all queues have to stay. With `queues` 1 everything waits on the first.
    ///
    /// # Errors
    /// [`TunError::Steering`] where such programs are not allowed or not known (Linux 4.16).
    pub fn steer(&self, queues: u8) -> Result<(), TunError> {
        let refused = |source| TunError::Steering { name: self.name.clone(), source };
        let program = crate::steer::load(queues).map_err(refused)?;
        ioctl::set_steering(&self.file, program.as_fd()).map_err(refused)
    }

    /// Another handle of this very queue, for whoever wants the device to outlive this one. Only one of them should read.
    pub fn try_clone(&self) -> io::Result<Self> {
        let file = self.file.try_clone()?;
        Ok(Self { file, name: self.name.clone(), offload: self.offload, multi_queue: self.multi_queue })
    }

    /// The offloads that the kernel granted.
    pub fn offload(&self) -> Offload {
        self.offload
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface's name now: it may have been given another one.
    pub fn current_name(&self) -> io::Result<String> {
        ioctl::describe(&self.file).map(|(name, _)| name)
    }

    /// The network namespace that the device is in now, which need not be the one that it was made in. Needs Linux 5.2, and
    /// `CAP_NET_ADMIN` there.
    pub fn namespace(&self) -> io::Result<OwnedFd> {
        ioctl::namespace(&self.file)
    }

    /// Whether the device still exists. It also does after it was renamed or moved to another network namespace, where netlink
    /// of this one reports it as removed.
    pub fn exists(&self) -> bool {
        ioctl::is_attached(&self.file)
    }

    /// Reads one packet, with [`HEADER_LEN`] bytes of header in front iff [`Offload::vnet_header`] is granted.
    /// `WouldBlock` when there is none; a packet that does not fit `buffer` is cut off, so give it 65,536 +
    /// [`HEADER_LEN`] bytes. `EBADFD` means that the device was removed.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(buffer)
    }

    /// Writes one packet, with its header iff granted. The kernel takes all of it or fails: `InvalidInput` for a packet
    /// it does not understand (on some kernels also for good superpackets: then stop merging), `EIO` while the
    /// interface is down.
    pub fn write(&self, packet: &[u8]) -> io::Result<usize> {
        (&self.file).write(packet)
    }

    /// The same for a packet that lies in several pieces (header, payloads), which spares the copy that would join
    /// them. At most 1,024 pieces (`UIO_MAXIOV`).
    pub fn write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        (&self.file).write_vectored(pieces)
    }

    fn with_header(config: &Config, asked: Offload) -> Result<Self, TunError> {
        let (file, name) = open(config, libc::IFF_VNET_HDR | libc::IFF_TUN_EXCL)?;
        Self::settle(file, name, asked, config.multi_queue)
    }

    /// Fixes the header of a device that has one, and asks for offloads.
    fn settle(file: File, name: String, asked: Offload, multi_queue: bool) -> Result<Self, TunError> {
        let refused = |source| TunError::from_kernel("set the packet header", &name, source);
        ioctl::set_header_length(&file, HEADER_LEN).map_err(refused)?;
        match ioctl::set_little_endian(&file) {
            // An old kernel: its order is the host's, which is the right one here anyway.
            Err(_) if cfg!(target_endian = "little") => {}
            answer => answer.map_err(refused)?,
        }
        for offload in asked.ladder() {
            if ioctl::set_offload(&file, offload.bits()).is_ok() {
                return Ok(Self { file, name, offload, multi_queue });
            }
        }
        // Not even "none" is known there; none is what a new device has.
        let offload = Offload { vnet_header: true, ..Offload::NONE };
        Ok(Self { file, name, offload, multi_queue })
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Opens `/dev/net/tun` and turns it into a queue. `IFF_TUN_EXCL` among the flags refuses to take over a device that
/// exists.
fn open(config: &Config, flags: libc::c_int) -> Result<(File, String), TunError> {
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

/// What the kernel would refuse (`dev_valid_name`, net/core/dev.c), plus what no user could type; told apart here
/// because its answer is a bare EINVAL, which reads like a missing offload.
fn check_name(name: &str) -> Result<(), TunError> {
    let reason = if name.is_empty() || name.len() > NAME_MAX {
        "it must have 1 to 15 bytes"
    } else if name == "." || name == ".." {
        "it is a directory's name"
    } else if !name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/' && byte != b':') {
        "it contains a blank, a slash, a colon or something unprintable"
    } else if name.replacen("%d", "", 1).contains('%') {
        "a per cent sign stands only in one %d"
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
