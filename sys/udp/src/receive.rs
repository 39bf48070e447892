//! Receiving: many datagrams, and runs of them, per system call.

use crate::address::Name;
use crate::control::ReceiveControl;
use crate::local::Local;
use crate::mapping::MappedMemory;
use crate::{BUFFER_LEN, MAX_MESSAGES, UdpSocket};
use std::io;
use std::mem::{self, MaybeUninit};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;
use std::slice::ChunksMut;

/// A datagram, or a run of equal datagrams from one sender, in the memory of the batch. It may be decrypted in place.
#[derive(Debug)]
pub struct ReceivedRun<'a> {
    /// The sender; IPv4 is IPv4, also on a dual-stack socket.
    pub source: SocketAddr,
    /// The local address that it came to; `None` if the kernel does not report it.
    pub local: Option<Local>,
    /// The datagrams, one behind the other.
    pub data: &'a mut [u8],
    /// Bytes of each datagram; the last may be shorter. Never 0, even where `data` is empty (anyone can send empty
    /// datagrams).
    pub segment_size: usize,
    /// The two bits of congestion notification on them (RFC 3168), equal on all of a run; 0 if the kernel does not report them.
    pub ecn: u8,
}

impl ReceivedRun<'_> {
    /// Iterates over the datagrams; an empty datagram yields none.
    pub fn datagrams(&mut self) -> ChunksMut<'_, u8> {
        self.data.chunks_mut(self.segment_size)
    }
}

/// Buffers for one receive call, which are reused.
///
/// Each message has [`BUFFER_LEN`] bytes of address space; a page of them takes memory only after data that
/// reaches it has arrived.
pub struct ReceiveBatch {
    memory: MappedMemory,
    messages: usize,
    /// Messages of the last call, in order of arrival; never longer than `messages`, so it never grows.
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
    /// Returns buffers for `messages` datagrams or runs per call, at least 1 and at most [`MAX_MESSAGES`]. Fails when the address
    /// space or a memory limit is used up.
    pub fn new(messages: usize) -> io::Result<Self> {
        let messages = messages.clamp(1, MAX_MESSAGES);
        let memory = MappedMemory::new(messages * BUFFER_LEN)?;
        Ok(Self { memory, messages, received: Vec::with_capacity(messages), truncated: 0 })
    }

    /// Iterates over the messages of the last [`recv`](UdpSocket::recv), in order of arrival.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = ReceivedRun<'_>> {
        let mut slots = self.memory.bytes().chunks_exact_mut(BUFFER_LEN).enumerate();
        self.received.iter().filter_map(move |message| {
            // Slots without a usable message are skipped; slots and messages are in ascending order.
            let (_, slot) = slots.find(|(slot, _)| *slot == message.slot)?;
            let data = slot.get_mut(..message.length)?;
            let Message { source, local, segment_size, ecn, .. } = *message;
            Some(ReceivedRun { source, local, data, segment_size, ecn })
        })
    }

    /// Returns the number of messages of the last call.
    pub fn len(&self) -> usize {
        self.received.len()
    }

    /// Returns the bytes of these messages.
    pub fn bytes(&self) -> usize {
        self.received.iter().map(|message| message.length).sum()
    }

    /// Returns true if the last call received nothing.
    pub fn is_empty(&self) -> bool {
        self.received.is_empty()
    }

    /// Returns the number of messages that were dropped because they did not fit their buffer. Stays 0 as long as UDP lengths have
    /// 16 bits.
    pub fn truncated(&self) -> u64 {
        self.truncated
    }

    /// Adds the message in a slot, unless it is truncated or has no source address.
    fn keep(&mut self, slot: usize, header: &libc::mmsghdr, source: &Name, answer: &ReceiveControl) {
        if header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 {
            self.truncated += 1;
            return;
        }
        let Some(source) = source.decode() else { return };
        let length = (header.msg_len as usize).min(BUFFER_LEN);
        // Its type is not the same with every libc.
        let info = answer.read(header.msg_hdr.msg_controllen as _);
        let segment_size = info.segment_size.unwrap_or(length).max(1);
        let local = info.arrival.map(Local::new);
        self.received.push(Message { slot, source, local, length, segment_size, ecn: info.ecn });
    }
}

impl UdpSocket {
    /// Receives as many messages as fit `batch`, whose former content is replaced. Returns the number of usable messages,
    /// which may be 0. Fails with `WouldBlock` if nothing has arrived. Never blocks, allocates nothing.
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
    let mut answers = [const { MaybeUninit::<ReceiveControl>::uninit() }; MAX_MESSAGES];
    for (slot, buffer) in batch.memory.bytes().chunks_exact_mut(BUFFER_LEN).enumerate() {
        let piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: all bytes zero is a valid `mmsghdr`: null pointers and numbers, padding included.
        let header = headers[slot].write(unsafe { mem::zeroed() });
        header.msg_hdr.msg_iov = pieces[slot].write(piece);
        header.msg_hdr.msg_iovlen = 1;
        header.msg_hdr.msg_name = ptr::from_mut(names[slot].write(Name::empty())).cast();
        header.msg_hdr.msg_namelen = Name::ROOM;
        header.msg_hdr.msg_control = ptr::from_mut(answers[slot].write(ReceiveControl::empty())).cast();
        header.msg_hdr.msg_controllen = ReceiveControl::ROOM as _;
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
