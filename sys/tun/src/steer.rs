//! A program for the kernel that chooses the queue of each packet by its [flow](crate::flow()) only.
//!
//! Without a program the kernel uses a table of the queue on which each flow was last written, whose entries expire after three seconds without a write, and
//! else a hash over the number of attached queues. A flow then changes its queue while it is active: if nothing answers for three seconds, if an answer comes
//! on another queue, or if a queue is attached or detached. Packets on a detached queue are lost, and packets on two queues have no common order.

use crate::flow::{FRAGMENT, SPREAD_ADDRESSES, SPREAD_ALL, TCP, UDP};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use taut_base::Placement;

/// One instruction (include/uapi/linux/bpf.h, `struct bpf_insn`).
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
    code: u8,
    /// Destination in the low half, source in the high half.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// The start of `union bpf_attr` as `BPF_PROG_LOAD` reads it; the other fields are zero.
#[repr(C)]
struct Load {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}

const BPF_PROG_LOAD: libc::c_int = 5;
/// `BPF_PROG_TYPE_SOCKET_FILTER`, which is what a TUN takes for steering.
const SOCKET_FILTER: u32 = 1;

// Operation codes (Documentation/bpf/standardization/instruction-set.rst). All arithmetic here is of 32 bits.
const LOAD_BYTE: u8 = 0x30;
const LOAD_HALF: u8 = 0x28;
const LOAD_WORD: u8 = 0x20;
const LOAD_WORD_AT: u8 = 0x40;
const ADD: u8 = 0x0c;
const AND_NUMBER: u8 = 0x54;
const SHIFT_LEFT: u8 = 0x64;
const SHIFT_RIGHT: u8 = 0x74;
const MULTIPLY: u8 = 0x24;
const MODULO: u8 = 0x94;
const XOR: u8 = 0xac;
const MOVE: u8 = 0xbc;
const MOVE_NUMBER: u8 = 0xb4;
const MOVE_POINTER: u8 = 0xbf;
const JUMP: u8 = 0x05;
const JUMP_EQUAL: u8 = 0x15;
const JUMP_DIFFERENT: u8 = 0x55;
const EXIT: u8 = 0x95;

/// The result of load instructions, and of the program.
const R0: u8 = 0;
/// The packet, as the argument of the program.
const R1: u8 = 1;
/// The packet, as load instructions expect it.
const R6: u8 = 6;
/// The hash so far.
const R7: u8 = 7;
/// The offset of the ports.
const R8: u8 = 8;

const fn op(code: u8, destination: u8, source: u8, immediate: i32) -> Instruction {
    Instruction { code, registers: source << 4 | destination, offset: 0, immediate }
}

/// A target of jumps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    Ipv6,
    Ports,
    Mix,
    Nothing,
}

/// A program under construction, whose jumps refer to labels.
#[derive(Default)]
struct Assembly {
    instructions: Vec<Instruction>,
    jumps: Vec<(usize, Label)>,
    labels: Vec<(Label, usize)>,
}

impl Assembly {
    fn push(&mut self, code: u8, destination: u8, source: u8, immediate: u32) {
        self.instructions.push(op(code, destination, source, immediate.cast_signed()));
    }

    fn jump(&mut self, code: u8, register: u8, immediate: u32, to: Label) {
        self.jumps.push((self.instructions.len(), to));
        self.push(code, register, 0, immediate);
    }

    fn label(&mut self, label: Label) {
        self.labels.push((label, self.instructions.len()));
    }

    fn finish(mut self) -> Vec<Instruction> {
        for (at, label) in self.jumps {
            let target = self.labels.iter().find(|(known, _)| *known == label).map_or(0, |(_, place)| *place);
            if let (Some(jump), Ok(distance)) = (self.instructions.get_mut(at), i16::try_from(target - at - 1)) {
                jump.offset = distance;
            }
        }
        self.instructions
    }
}

/// Returns the program that computes the lane of the [`flow`](crate::flow()). A load beyond the packet's end ends the program with 0, which is also the flow.
fn program(placement: Placement) -> Vec<Instruction> {
    let mut to = Assembly::default();
    to.push(MOVE_POINTER, R6, R1, 0);
    to.push(LOAD_BYTE, 0, 0, 0);
    to.push(SHIFT_RIGHT, R0, 0, 4);
    to.jump(JUMP_EQUAL, R0, 6, Label::Ipv6);
    to.jump(JUMP_DIFFERENT, R0, 4, Label::Nothing);

    to.push(LOAD_WORD, 0, 0, 12);
    to.push(MOVE, R7, R0, 0);
    to.push(LOAD_WORD, 0, 0, 16);
    to.push(XOR, R7, R0, 0);
    to.push(MULTIPLY, R7, 0, SPREAD_ADDRESSES);
    to.push(LOAD_BYTE, 0, 0, 0);
    to.push(AND_NUMBER, R0, 0, 15);
    to.push(SHIFT_LEFT, R0, 0, 2);
    to.push(MOVE, R8, R0, 0);
    to.push(LOAD_HALF, 0, 0, 6);
    to.push(AND_NUMBER, R0, 0, FRAGMENT);
    to.jump(JUMP_DIFFERENT, R0, 0, Label::Mix);
    to.push(LOAD_BYTE, 0, 0, 9);
    to.jump(JUMP_EQUAL, R0, TCP.into(), Label::Ports);
    to.jump(JUMP_EQUAL, R0, UDP.into(), Label::Ports);
    to.jump(JUMP, 0, 0, Label::Mix);

    to.label(Label::Ipv6);
    to.push(MOVE_NUMBER, R7, 0, 0);
    for at in (8..40).step_by(4) {
        to.push(LOAD_WORD, 0, 0, at);
        to.push(XOR, R7, R0, 0);
    }
    to.push(MULTIPLY, R7, 0, SPREAD_ADDRESSES);
    to.push(MOVE_NUMBER, R8, 0, 40);
    to.push(LOAD_BYTE, 0, 0, 6);
    to.jump(JUMP_EQUAL, R0, TCP.into(), Label::Ports);
    to.jump(JUMP_DIFFERENT, R0, UDP.into(), Label::Mix);

    to.label(Label::Ports);
    to.push(LOAD_WORD_AT, 0, R8, 0);
    to.push(MOVE, R8, R0, 0);
    to.push(SHIFT_RIGHT, R8, 0, 16);
    to.push(XOR, R0, R8, 0);
    to.push(AND_NUMBER, R0, 0, 0xffff);
    to.push(ADD, R7, R0, 0);

    to.label(Label::Mix);
    to.push(MULTIPLY, R7, 0, SPREAD_ALL);
    to.push(SHIFT_RIGHT, R7, 0, 16);
    to.push(MULTIPLY, R7, 0, placement.factor().into());
    to.push(SHIFT_RIGHT, R7, 0, 8);
    to.push(AND_NUMBER, R7, 0, 0xff);
    to.push(MODULO, R7, 0, placement.lanes().into());
    to.push(MOVE, R0, R7, 0);
    to.push(EXIT, 0, 0, 0);

    to.label(Label::Nothing);
    to.push(MOVE_NUMBER, R0, 0, 0);
    to.push(EXIT, 0, 0, 0);
    to.finish()
}

/// Returns the program that computes the last four bytes of the destination address modulo `queues`.
fn program_by_destination(queues: u8) -> Vec<Instruction> {
    let mut to = Assembly::default();
    to.push(MOVE_POINTER, R6, R1, 0);
    to.push(LOAD_BYTE, 0, 0, 0);
    to.push(SHIFT_RIGHT, R0, 0, 4);
    to.jump(JUMP_EQUAL, R0, 6, Label::Ipv6);
    to.jump(JUMP_DIFFERENT, R0, 4, Label::Nothing);
    to.push(LOAD_WORD, 0, 0, 16);
    to.jump(JUMP, 0, 0, Label::Mix);
    to.label(Label::Ipv6);
    to.push(LOAD_WORD, 0, 0, 36);
    to.label(Label::Mix);
    to.push(MODULO, R0, 0, u32::from(queues.max(1)));
    to.push(EXIT, 0, 0, 0);
    to.label(Label::Nothing);
    to.push(MOVE_NUMBER, R0, 0, 0);
    to.push(EXIT, 0, 0, 0);
    to.finish()
}

/// Loads the program of this placement.
pub(crate) fn load(placement: Placement) -> io::Result<OwnedFd> {
    load_program(&program(placement))
}

/// Loads the program that chooses among this many queues by destination.
pub(crate) fn load_by_destination(queues: u8) -> io::Result<OwnedFd> {
    load_program(&program_by_destination(queues))
}

/// Loads a program. Needs `CAP_BPF`, or a system that permits unprivileged programs (`kernel.unprivileged_bpf_disabled` = 0).
fn load_program(instructions: &[Instruction]) -> io::Result<OwnedFd> {
    let load = Load {
        kind: SOCKET_FILTER,
        count: u32::try_from(instructions.len()).map_err(io::Error::other)?,
        instructions: instructions.as_ptr() as u64,
        license: c"Apache-2.0".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
    };
    // SAFETY: `load` and what it points to live across the call, and the size is its own.
    let result = unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, &raw const load, size_of::<Load>()) };
    let fd = libc::c_int::try_from(result).map_err(io::Error::other)?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
