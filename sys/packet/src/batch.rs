//! Receives frames.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{MAX_FRAMES, PacketSocket};

/// Bytes of the control messages of a frame: a time (`SCM_TIMESTAMPNS`) and `struct tpacket_auxdata`, each with its header.
const CONTROL: usize = 96;

/// Buffers for one receive call. A buffer can be taken out with the frame in it.
pub struct FrameBatch {
    slots: Vec<Slot>,
    controls: Vec<Control>,
    received: usize,
    room: usize,
}

struct Slot {
    buffer: Box<[u8]>,
    received: ReceivedFrame,
}

/// The metadata of a received frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedFrame {
    /// Bytes of the frame, including the virtio header; more than its buffer holds if it was truncated.
    pub length: usize,
    /// Time since it reached the interface.
    pub age: Duration,
    /// True if its checksum was left to a network card and is not computed.
    pub unfinished: bool,
}

/// A buffer with the alignment of control message headers.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

impl FrameBatch {
    /// Returns buffers for [`MAX_FRAMES`] frames of `room` bytes each.
    pub fn new(room: usize) -> Self {
        let slot = || Slot { buffer: vec![0; room].into(), received: ReceivedFrame::default() };
        let controls = vec![Control([0; CONTROL]); MAX_FRAMES];
        Self { slots: (0..MAX_FRAMES).map(|_| slot()).collect(), controls, received: 0, room }
    }

    /// Returns the number of frames of the last call.
    pub fn len(&self) -> usize {
        self.received
    }

    /// Returns true if the last call received no frame.
    pub fn is_empty(&self) -> bool {
        self.received == 0
    }

    /// Returns the metadata of a frame of the last call; `None` beyond the last frame.
    pub fn get(&self, place: usize) -> Option<ReceivedFrame> {
        self.slots.get(..self.received)?.get(place).map(|slot| slot.received)
    }

    /// Takes out the buffer of a frame, and puts `other` in its place. Returns `other` if its size is wrong.
    pub fn swap(&mut self, place: usize, other: Box<[u8]>) -> Box<[u8]> {
        match self.slots.get_mut(place) {
            Some(slot) if other.len() == self.room => mem::replace(&mut slot.buffer, other),
            _ => other,
        }
    }
}

impl PacketSocket {
    /// Receives as many frames as fit `batch`, and returns their number. Fails with `WouldBlock` if nothing has arrived. Never blocks.
    pub fn receive(&self, batch: &mut FrameBatch) -> io::Result<usize> {
        batch.received = 0;
        // SAFETY: all bytes zero is a valid `mmsghdr` and `iovec`.
        let (mut vectors, mut headers): ([libc::iovec; MAX_FRAMES], [libc::mmsghdr; MAX_FRAMES]) =
            unsafe { (mem::zeroed(), mem::zeroed()) };
        for (((slot, vector), header), control) in
            batch.slots.iter_mut().zip(&mut vectors).zip(&mut headers).zip(&mut batch.controls)
        {
            *vector = libc::iovec { iov_base: slot.buffer.as_mut_ptr().cast(), iov_len: slot.buffer.len() };
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = CONTROL as _;
        }
        let flags = (libc::MSG_DONTWAIT | libc::MSG_TRUNC) as _;
        let count = batch.slots.len() as libc::c_uint;
        // SAFETY: `count` headers point to vectors and control buffers, and the vectors to buffers, that all live across the call.
        let received =
            unsafe { libc::recvmmsg(self.as_fd().as_raw_fd(), headers.as_mut_ptr(), count, flags, ptr::null_mut()) };
        let Ok(received) = usize::try_from(received) else { return Err(io::Error::last_os_error()) };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        for (slot, header) in batch.slots.iter_mut().zip(&headers).take(received) {
            slot.received = ReceivedFrame { length: header.msg_len as usize, ..beside(&header.msg_hdr, now) };
        }
        batch.received = received;
        Ok(received)
    }
}

/// Parses the control messages of a frame.
fn beside(header: &libc::msghdr, now: Duration) -> ReceivedFrame {
    let mut received = ReceivedFrame::default();
    // SAFETY: `header` was filled by the kernel, and its control buffer lives.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !next.is_null() {
        // SAFETY: not null, so it points to a whole header inside the control buffer.
        let message = unsafe { *next };
        // SAFETY: as above; the data follows the header.
        let data = unsafe { libc::CMSG_DATA(next) };
        let holds = |bytes: usize| message.cmsg_len as usize >= data as usize - next as usize + bytes;
        match (message.cmsg_level, message.cmsg_type) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) if holds(size_of::<libc::timespec>()) => {
                // SAFETY: that many bytes are present, with any alignment.
                let stamp = unsafe { data.cast::<libc::timespec>().read_unaligned() };
                let (seconds, nanoseconds) = (u64::try_from(stamp.tv_sec), u32::try_from(stamp.tv_nsec));
                if let (Ok(seconds), Ok(nanoseconds)) = (seconds, nanoseconds) {
                    received.age = now.saturating_sub(Duration::new(seconds, nanoseconds));
                }
            }
            (libc::SOL_PACKET, libc::PACKET_AUXDATA) if holds(size_of::<libc::c_uint>()) => {
                // SAFETY: the first field of `struct tpacket_auxdata`, `tp_status`, is there.
                let status = unsafe { data.cast::<libc::c_uint>().read_unaligned() };
                received.unfinished = status & libc::TP_STATUS_CSUMNOTREADY != 0;
            }
            _ => {}
        }
        // SAFETY: `next` came from this header's control buffer.
        next = unsafe { libc::CMSG_NXTHDR(header, next) };
    }
    received
}
