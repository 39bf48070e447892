//! Choosing one of the sockets that share a port by the contents of each datagram: a classic BPF program at the group (`SO_ATTACH_REUSEPORT_CBPF`, Linux 4.5).
//!
//! The program reads single bytes, so it can only name a socket. A load beyond the end of the datagram ends it with 0, the first socket.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A kind of datagram that names its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketChoice {
    /// The first byte of such datagrams.
    pub first: u8,
    /// The offset of the byte whose low 4 bits are the number of the socket.
    pub offset: u8,
}

// Operation codes (include/uapi/linux/bpf_common.h).
const LOAD_BYTE: u16 = 0x30;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const AND_NUMBER: u16 = 0x54;
const MODULO_NUMBER: u16 = 0x94;
const RETURN_NUMBER: u16 = 0x06;
const RETURN_RESULT: u16 = 0x16;

/// Most kinds of datagrams, 8: jumps to the end of the program then fit into a byte.
const MOST: usize = 8;

/// Returns the program. Datagrams of no such kind choose the first socket.
fn program(choices: &[SocketChoice], sockets: u8) -> Vec<libc::sock_filter> {
    let op = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = vec![op(LOAD_BYTE, 0, 0, 0)];
    for (place, choice) in choices.iter().take(MOST).enumerate() {
        // Behind this kind: those that follow, with three instructions each, and the return of 0.
        let left = 3 * (choices.len().min(MOST) - place - 1) + 1;
        program.push(op(JUMP_EQUAL, 0, 2, choice.first.into()));
        program.push(op(LOAD_BYTE, 0, 0, choice.offset.into()));
        program.push(op(JUMP, 0, 0, left as u32));
    }
    program.push(op(RETURN_NUMBER, 0, 0, 0));
    program.push(op(AND_NUMBER, 0, 0, 0x0f));
    program.push(op(MODULO_NUMBER, 0, 0, sockets.max(1).into()));
    program.push(op(RETURN_RESULT, 0, 0, 0));
    program
}

/// Attaches the program to the group of sockets that this one belongs to. The sockets are numbered in the order in which they were bound.
pub(crate) fn attach(socket: BorrowedFd<'_>, choices: &[SocketChoice], sockets: u8) -> io::Result<()> {
    let mut program = program(choices, sockets);
    let attached = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let length = size_of_val(&attached) as libc::socklen_t;
    // SAFETY: the value has `length` bytes, and it and the program that it points to live across the call, which copies both.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const attached).cast(),
            length,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
