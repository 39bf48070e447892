//! Receiving: many datagrams, and runs of them, per system call.

use crate::address::Name;
use crate::control::Answer;
use crate::local::Local;
use crate::mapping::Mapping;
use crate::{BUFFER_LEN, MAX_MESSAGES, UdpSocket};
use std::io;
use std::mem::{self, MaybeUninit};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;
use std::slice::ChunksMut;

/// A datagram, or a run of equal ones from one sender, in the batch's own memory, free to be decrypted in place.
#[derive(Debug)]
pub struct Received<'a> {
    /// Who sent it; IPv4 is IPv4, also on a dual-stack socket.
    pub source: SocketAddr,
    /// Which address of ours it came to; `None` where the kernel does not say.
    pub local: Option<Local>,
    /// The datagrams, one behind the other.
    pub data: &'a mut [u8],
    /// Bytes of each datagram; the last may be shorter. Never 0, even where `data` is empty (anyone can send empty
    /// datagrams).
    pub segment_size: usize,
    /// The two bits of congestion notification on them (RFC 3168), equal on all of a run; 0 where the kernel does not say.
    pub ecn: u8,
}

impl Received<'_> {
    /// The datagrams one by one; none for an empty datagram.
    pub fn datagrams(&mut self) -> ChunksMut<'_, u8> {
        self.data.chunks_mut(self.segment_size)
    }
}

/// Buffers for one receive call, made once and used again and again.
///
/// Each message has [`BUFFER_LEN`] bytes of address space; a page of them takes memory only once something large enough
/// arrived.
pub struct ReceiveBatch {
    memory: Mapping,
    messages: usize,
    /// What the last call brought, in order of arrival; never longer than `messages`, so it never grows.
    received: Vec<Message>,
    truncated: u64,
}

#[derive(Clone, Copy)]
struct Message {
    slot: usize,
    source: SocketAddr,
    local: Option<Local>,
    length: usize,
    segment_size: usize,
    ecn: u8,
}

impl ReceiveBatch {
    /// Room for `messages` datagrams or runs per call, at least 1 and at most [`MAX_MESSAGES`]. Fails when the address
    /// space or a memory limit is used up.
    pub fn new(messages: usize) -> io::Result<Self> {
        let messages = messages.clamp(1, MAX_MESSAGES);
        let memory = Mapping::new(messages * BUFFER_LEN)?;
        Ok(Self { memory, messages, received: Vec::with_capacity(messages), truncated: 0 })
    }

    /// What the last [`recv`](UdpSocket::recv) brought, in order of arrival.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = Received<'_>> {
        let mut slots = self.memory.bytes().chunks_exact_mut(BUFFER_LEN).enumerate();
        self.received.iter().filter_map(move |message| {
            // Slots that brought nothing usable are passed over; both run in ascending order.
            let (_, slot) = slots.find(|(slot, _)| *slot == message.slot)?;
            let data = slot.get_mut(..message.length)?;
            let Message { source, local, segment_size, ecn, .. } = *message;
            Some(Received { source, local, data, segment_size, ecn })
        })
    }

    /// How many messages the last call brought.
    pub fn len(&self) -> usize {
        self.received.len()
    }

    /// Whether the last call brought nothing.
    pub fn is_empty(&self) -> bool {
        self.received.is_empty()
    }

    /// How many messages were dropped so far because they did not fit their buffer. Stays 0 as long as UDP lengths have
    /// 16 bits.
    pub fn truncated(&self) -> u64 {
        self.truncated
    }

    /// Keeps what the kernel put into a slot, unless it is cut off or from no address at all.
    fn keep(&mut self, slot: usize, header: &libc::mmsghdr, source: &Name, answer: &Answer) {
        if header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 {
            self.truncated += 1;
            return;
        }
        let Some(source) = source.decode() else { return };
        let length = (header.msg_len as usize).min(BUFFER_LEN);
        // Its type is not the same with every libc.
        let said = answer.read(header.msg_hdr.msg_controllen as _);
        let segment_size = said.segment_size.unwrap_or(length).max(1);
        let local = said.arrival.map(Local::new);
        self.received.push(Message { slot, source, local, length, segment_size, ecn: said.ecn });
    }
}

impl UdpSocket {
    /// Takes what has arrived, as much as fits `batch`, whose former content is gone. Says how many messages are usable
    /// (which may be none). `WouldBlock` when nothing had arrived. Never blocks, allocates nothing.
    pub fn recv(&self, batch: &mut ReceiveBatch) -> io::Result<usize> {
        batch.received.clear();
        loop {
            match receive(self.as_fd(), batch) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(()) => return Ok(batch.received.len()),
            }
        }
    }
}

fn receive(fd: BorrowedFd<'_>, batch: &mut ReceiveBatch) -> io::Result<()> {
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; MAX_MESSAGES];
    let mut pieces = [const { MaybeUninit::<libc::iovec>::uninit() }; MAX_MESSAGES];
    let mut names = [const { MaybeUninit::<Name>::uninit() }; MAX_MESSAGES];
    let mut answers = [const { MaybeUninit::<Answer>::uninit() }; MAX_MESSAGES];
    for (slot, buffer) in batch.memory.bytes().chunks_exact_mut(BUFFER_LEN).enumerate() {
        let piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: all bytes zero is a valid `mmsghdr`: null pointers and numbers, padding included.
        let header = headers[slot].write(unsafe { mem::zeroed() });
        header.msg_hdr.msg_iov = pieces[slot].write(piece);
        header.msg_hdr.msg_iovlen = 1;
        header.msg_hdr.msg_name = ptr::from_mut(names[slot].write(Name::empty())).cast();
        header.msg_hdr.msg_namelen = Name::ROOM;
        header.msg_hdr.msg_control = ptr::from_mut(answers[slot].write(Answer::empty())).cast();
        header.msg_hdr.msg_controllen = Answer::ROOM as _;
    }
    let room = libc::c_uint::try_from(batch.messages).unwrap_or_default();
    // SAFETY: the loop above initialised `messages` headers, one per buffer; all that they point to outlives the call
    // and is borrowed by nobody else.
    let count = unsafe {
        let headers = headers.as_mut_ptr().cast();
        libc::recvmmsg(fd.as_raw_fd(), headers, room, libc::MSG_DONTWAIT as _, ptr::null_mut())
    };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    for slot in 0..count.min(batch.messages) {
        // SAFETY: the loop above initialised all three for each slot below `messages`.
        let (header, name, answer) = unsafe {
            (headers[slot].assume_init_ref(), names[slot].assume_init_ref(), answers[slot].assume_init_ref())
        };
        batch.keep(slot, header, name, answer);
    }
    Ok(())
}
