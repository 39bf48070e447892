//! Merging of received packets into superpackets, so that one write passes many packets to the TUN.
//!
//! The packets of a batch are in one buffer, decrypted in place. [`Merger`] keeps only their positions: a finished [`Run`] is a virtio header and slices of that
//! buffer for one `writev`. Nothing is copied or allocated; the first packet's header is changed in place when its run ends.
//!
//! Rules (`docs/spec`, "Merging"):
//! - A packet is merged only after its checksums were verified. A packet with a bad checksum, or one that does not qualify for another reason, is written alone,
//!   with unchanged bytes and a virtio header of zeros.
//! - A packet with a [partial checksum](crate::partial_checksum) is not verified. It merges only with others of its kind, and its virtio header tells the kernel
//!   about the partial checksum, also if it is written alone.
//! - TCP: equal addresses, ports, acknowledgement, window, flags, options, TTL, TOS, DF and flow label; contiguous sequence; equal sizes, except that a shorter
//!   packet or FIN ends the run. A packet inside the run may have PSH, which is then set on the superpacket. Never merged: pure ACK, SYN, RST, URG, fragments, IP
//!   options, IPv6 extension headers. CWR only on the first packet, and only with [`Offloads::ecn`].
//! - UDP: equal headers in the same way, equal sizes, a checksum that is not zero.
//! - With DF clear the IPv4 ID must rise by one. With DF set the ID has no meaning (RFC 6864, 4.1) and is not kept.
//! - A run has packets of one session only. The order inside a flow never changes; between flows it may, inside a batch. Fragments have no ports, so they end
//!   all runs between their two hosts.

use core::ops::Range;

use crate::bytes::{be16, low16, put8, put16};
use crate::checksum;
use crate::ip::{self, MalformedIp, Packet, Version, v4, v6};
use crate::partial_checksum::PartialChecksum;
use crate::vnet::{GSO_ECN, GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, NEEDS_CSUM, VnetHeader};
use crate::{tcp, udp};

mod candidate;
use candidate::{Candidate, Class, Flow};

/// Limit on the packets of one run, 64: the kernel's limit for a UDP superpacket (`UDP_MAX_SEGMENTS`, `include/linux/udp.h`, before it was doubled). From 1,024
/// payload bytes per packet on, [`MAX_BYTES`] ends a run first.
pub const MAX_RUN: usize = 64;

/// Limit on the length of a merged IP packet, 65,535 bytes: the limit of IPv4's length field.
pub const MAX_BYTES: usize = 65_535;

/// Limit on the open runs, 8: a batch has packets of a few flows. A further flow ends the oldest run, which bounds the cost of finding a flow.
pub const MAX_OPEN: usize = 8;

/// Kinds of superpackets that the TUN accepts: the offloads that the kernel granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// TCP over IPv4 (`TUN_F_TSO4`).
    pub tcp4: bool,
    /// TCP over IPv6 (`TUN_F_TSO6`).
    pub tcp6: bool,
    /// TCP superpackets whose first segment has CWR (`TUN_F_TSO_ECN`).
    pub ecn: bool,
    /// UDP over IPv4 (`TUN_F_USO4`).
    pub udp4: bool,
    /// UDP over IPv6 (`TUN_F_USO6`).
    pub udp6: bool,
}

impl Offloads {
    /// No offload: nothing is merged.
    pub const NONE: Offloads = Offloads { tcp4: false, tcp6: false, ecn: false, udp4: false, udp6: false };
    /// All offloads.
    pub const ALL: Offloads = Offloads { tcp4: true, tcp6: true, ecn: true, udp4: true, udp6: true };
}

/// A packet or superpacket for one write to the TUN.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    header: VnetHeader,
    buffer: &'a [u8],
    parts: &'a [Slice],
}

impl<'a> Run<'a> {
    /// Returns the virtio header: zeros for a single packet with a complete checksum.
    #[must_use]
    pub const fn header(&self) -> VnetHeader {
        self.header
    }

    /// Returns the number of received packets, 1 to [`MAX_RUN`], which is also the number of slices.
    #[must_use]
    pub const fn packets(&self) -> usize {
        self.parts.len()
    }

    /// Returns the length of the packet or superpacket without the virtio header.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(|part| usize::from(part.len)).sum()
    }

    /// Returns the slices to write after the virtio header, in order: the first packet with its headers, then the payloads of the others.
    pub fn slices(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let buffer = self.buffer;
        self.parts.iter().map(move |part| buffer.get(part.range()).unwrap_or_default())
    }
}

/// Position of a slice of a run in the buffer.
#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    start: usize,
    len: u16,
}

impl Slice {
    fn range(self) -> Range<usize> {
        self.start..self.start + usize::from(self.len)
    }
}

/// A run that may still take packets.
#[derive(Clone, Copy, Debug)]
struct OpenRun {
    flow: Flow,
    session: u32,
    /// The first packet, to which later ones are compared.
    first: Candidate,
    /// Sequence number and IPv4 ID that the next packet must have.
    next_sequence: u32,
    next_id: u16,
    /// Flags of the first packet, with PSH and FIN of all.
    flags: u8,
    /// Length of the superpacket so far.
    total: usize,
    parts: [Slice; MAX_RUN],
    count: usize,
}

/// Merges the packets of one batch after the other, in fixed memory of about 9 KiB.
#[derive(Clone, Debug)]
pub struct Merger {
    offloads: Offloads,
    slots: [OpenRun; MAX_OPEN],
    /// Indices of the slots in use, oldest first, then those of the free slots.
    order: [usize; MAX_OPEN],
    open: usize,
}

const _: () = assert!(size_of::<Merger>() <= 9 * 1024, "each lane has a merger, so its size is limited");

impl Merger {
    /// Returns a merger for a TUN with these offloads.
    #[must_use]
    pub fn new(offloads: Offloads) -> Merger {
        Merger { offloads, slots: [OpenRun::UNUSED; MAX_OPEN], order: core::array::from_fn(|slot| slot), open: 0 }
    }

    /// Returns true if no run is open, as after [`Merger::flush`].
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.open == 0
    }

    /// Adds the packet at `packet` in `buffer`, which was decrypted in session `session`. Bytes beyond its IP length are ignored. Runs that it ends are passed to
    /// `emit`, in the order in which they must be written.
    ///
    /// All packets between two calls of [`Merger::flush`] are in the same `buffer` and do not change until then. They are in counter order within a session.
    ///
    /// `partial` is the packet's partial checksum; the flag has been cleared.
    ///
    /// # Errors
    /// [`MalformedIp`] if it is not an IP packet, or outside of `buffer`. Nothing is emitted for it.
    pub fn push(
        &mut self,
        buffer: &mut [u8],
        packet: Range<usize>,
        session: u32,
        partial: Option<PartialChecksum>,
        mut emit: impl FnMut(Run<'_>),
    ) -> Result<(), MalformedIp> {
        let start = packet.start;
        let packet = Packet::parse(buffer.get(packet).ok_or(MalformedIp::Length)?)?;
        let part = Slice { start, len: low16(packet.bytes().len()) };
        match candidate::classify(&packet, self.offloads, partial) {
            Class::NoFlow => {}
            Class::Portless(hosts) => self.end_between(&hosts, buffer, &mut emit),
            Class::Unmergeable(flow) => {
                if let Some(at) = self.find(&flow) {
                    self.end(at, buffer, &mut emit);
                }
            }
            Class::Mergeable(flow, candidate) => {
                self.take(flow, candidate, session, part, buffer, &mut emit);
                return Ok(());
            }
        }
        emit(Run { header: unmerged_header(partial), buffer, parts: &[part] });
        Ok(())
    }

    /// Ends all runs, oldest first. To be called at the end of each batch, before its buffer is reused.
    pub fn flush(&mut self, buffer: &mut [u8], mut emit: impl FnMut(Run<'_>)) {
        while self.open > 0 {
            self.end(0, buffer, &mut emit);
        }
    }

    /// Appends the packet to its flow's run, or ends that run and opens another.
    fn take(
        &mut self,
        flow: Flow,
        candidate: Candidate,
        session: u32,
        part: Slice,
        buffer: &mut [u8],
        emit: &mut impl FnMut(Run<'_>),
    ) {
        if let Some(at) = self.find(&flow) {
            let run = &mut self.slots[self.order[at]];
            if run.accepts(&candidate, session, part, buffer) {
                if run.append(&candidate, part) {
                    self.end(at, buffer, emit);
                }
                return;
            }
            self.end(at, buffer, emit);
        }
        if candidate.flags & tcp::FIN != 0 {
            emit(Run { header: unmerged_header(candidate.partial), buffer, parts: &[part] });
            return;
        }
        if self.open == MAX_OPEN {
            self.end(0, buffer, emit);
        }
        self.slots[self.order[self.open]].begin(flow, candidate, session, part);
        self.open += 1;
    }

    /// Returns the index in `order` of the flow's run.
    fn find(&self, flow: &Flow) -> Option<usize> {
        self.order[..self.open].iter().position(|&slot| self.slots[slot].flow == *flow)
    }

    fn end_between(&mut self, hosts: &Flow, buffer: &mut [u8], emit: &mut impl FnMut(Run<'_>)) {
        let mut at = 0;
        while at < self.open {
            if self.slots[self.order[at]].flow.same_hosts(hosts) {
                self.end(at, buffer, emit);
            } else {
                at += 1;
            }
        }
    }

    /// Emits the run at index `at` of `order` and frees its slot.
    fn end(&mut self, at: usize, buffer: &mut [u8], emit: &mut impl FnMut(Run<'_>)) {
        let slot = self.order[at];
        self.order[at..self.open].rotate_left(1);
        self.open -= 1;
        let run = &self.slots[slot];
        let header = run.finish(buffer);
        emit(Run { header, buffer, parts: &run.parts[..run.count] });
    }
}

impl OpenRun {
    const UNUSED: OpenRun = OpenRun {
        flow: Flow::NONE,
        session: 0,
        first: Candidate::NONE,
        next_sequence: 0,
        next_id: 0,
        flags: 0,
        total: 0,
        parts: [Slice { start: 0, len: 0 }; MAX_RUN],
        count: 0,
    };

    fn begin(&mut self, flow: Flow, candidate: Candidate, session: u32, part: Slice) {
        self.flow = flow;
        self.session = session;
        self.first = candidate;
        self.next_sequence = candidate.sequence.wrapping_add(u32::from(candidate.payload));
        self.next_id = candidate.id.wrapping_add(1);
        self.flags = candidate.flags;
        self.total = usize::from(part.len);
        self.parts[0] = part;
        self.count = 1;
    }

    /// Returns true if a packet of the same flow may be appended.
    fn accepts(&self, candidate: &Candidate, session: u32, part: Slice, buffer: &[u8]) -> bool {
        let (Some(first), Some(packet)) = (buffer.get(self.parts[0].range()), buffer.get(part.range())) else {
            return false;
        };
        self.session == session
            && self.first.partial == candidate.partial
            && self.count < MAX_RUN
            && candidate.payload <= self.first.payload
            && self.total + usize::from(candidate.payload) <= MAX_BYTES
            && candidate.sequence == self.next_sequence_of(candidate)
            && (candidate.dont_fragment || candidate.id == self.next_id)
            && self.first.same_headers(candidate, self.flow.version, first, packet)
    }

    /// Returns the expected sequence number. UDP has none, so the candidate's own number matches.
    fn next_sequence_of(&self, candidate: &Candidate) -> u32 {
        if self.flow.protocol == ip::TCP { self.next_sequence } else { candidate.sequence }
    }

    /// Appends a packet's payload. Returns true if it ends the run.
    fn append(&mut self, candidate: &Candidate, part: Slice) -> bool {
        self.parts[self.count] = Slice { start: part.start + usize::from(candidate.headers), len: candidate.payload };
        self.count += 1;
        self.total += usize::from(candidate.payload);
        self.next_sequence = self.next_sequence.wrapping_add(u32::from(candidate.payload));
        self.next_id = self.next_id.wrapping_add(1);
        self.flags |= candidate.flags & (tcp::PSH | tcp::FIN);
        candidate.payload < self.first.payload || candidate.flags & tcp::FIN != 0
    }

    /// Changes the first packet's header to the superpacket's, unless the packet is alone, and returns the virtio header.
    fn finish(&self, buffer: &mut [u8]) -> VnetHeader {
        let Some(packet) = buffer.get_mut(self.parts[0].range()) else { return VnetHeader::NONE };
        if self.count == 1 {
            return unmerged_header(self.first.partial);
        }
        let transport = usize::from(self.first.transport);
        patch_ip(packet, self.flow.version, self.total);
        let length = low16(self.total - transport);
        let pseudo_header = self.flow.pseudo_header(length).folded();
        let Some(header) = packet.get_mut(transport..) else { return VnetHeader::NONE };
        let (gso_type, csum_offset) = if self.flow.protocol == ip::TCP {
            put16(header, tcp::field::CHECKSUM, pseudo_header);
            put8(header, tcp::field::FLAGS, self.flags);
            (self.tcp_kind(), tcp::CHECKSUM_OFFSET)
        } else {
            put16(header, udp::field::LENGTH, length);
            put16(header, udp::field::CHECKSUM, pseudo_header);
            (GSO_UDP_L4, udp::CHECKSUM_OFFSET)
        };
        VnetHeader {
            flags: NEEDS_CSUM,
            gso_type,
            hdr_len: self.first.headers,
            gso_size: self.first.payload,
            csum_start: self.first.transport,
            csum_offset,
        }
    }

    fn tcp_kind(&self) -> u8 {
        let kind = match self.flow.version {
            Version::V4 => GSO_TCPV4,
            Version::V6 => GSO_TCPV6,
        };
        if self.flags & tcp::CWR != 0 { kind | GSO_ECN } else { kind }
    }
}

/// Returns the virtio header of a packet that was not merged.
fn unmerged_header(partial: Option<PartialChecksum>) -> VnetHeader {
    partial.map_or(VnetHeader::NONE, PartialChecksum::header)
}

fn patch_ip(packet: &mut [u8], version: Version, total: usize) {
    match version {
        Version::V4 => {
            let old = be16(packet, v4::TOTAL_LENGTH);
            let checksum = be16(packet, v4::CHECKSUM);
            put16(packet, v4::TOTAL_LENGTH, low16(total));
            put16(packet, v4::CHECKSUM, checksum::updated(checksum, old, low16(total)));
        }
        Version::V6 => put16(packet, v6::PAYLOAD_LENGTH, low16(total - ip::V6_HEADER)),
    }
}

#[cfg(test)]
mod tests;
