//! Received packets, put together into superpackets, so that the TUN takes many with one write.
//!
//! The packets of a batch lie somewhere in one buffer, decrypted in place. [`Merger`] remembers only where: a
//! finished [`Run`] is a virtio header and slices of that buffer for one `writev`. Nothing is copied, nothing is
//! allocated; the first packet's header is patched in place when its run ends.
//!
//! Rules (`docs/spec`, "Merging"):
//! - A packet is merged only after its own checksums were verified. One with a bad checksum, and whatever else does
//!   not qualify, leaves alone, with its bytes untouched and a header of zeros.
//! - A packet that the peer vouches for ([`crate::partial_checksum`]) has a partial checksum: nothing is verified, it merges with its
//!   like only, and its header says so to the kernel, of a single packet too.
//! - TCP: equal addresses, ports, acknowledgement, window, flags, options, TTL, TOS, DF and flow label; contiguous
//!   sequence; equal sizes, where a shorter one ends the run, as FIN does. PSH may stand inside and shows on the
//!   whole. Never: pure ACK, SYN, RST, URG, fragments, IP options, IPv6 extension headers. CWR only on the first
//!   packet, and only with [`Offloads::ecn`].
//! - UDP: equal headers likewise, equal sizes, a checksum that is not zero.
//! - With DF clear the IPv4 ID must rise by one. With DF set it means nothing (RFC 6864, 4.1) and is not kept.
//! - A run never crosses a session, and the order inside a flow never changes; between flows it may, inside a batch.
//!   Fragments have no ports: they end every run between their two hosts.

use core::ops::Range;

use crate::bytes::{be16, low16, put8, put16};
use crate::checksum;
use crate::ip::{self, MalformedIp, Packet, Version, v4, v6};
use crate::partial_checksum::PartialChecksum;
use crate::vnet::{GSO_ECN, GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, NEEDS_CSUM, VnetHeader};
use crate::{tcp, udp};

mod candidate;
use candidate::{Candidate, Flow, Sight};

/// Packets of one run at most. From 1,024 payload bytes upward [`MAX_BYTES`] ends a run first; and it is what the
/// kernel allows a train of UDP datagrams (`UDP_MAX_SEGMENTS`, `include/linux/udp.h`, 64 before it was doubled).
pub const MAX_RUN: usize = 64;

/// Bytes of a merged IP packet at most: the length field of IPv4 ends there.
pub const MAX_BYTES: usize = 65_535;

/// Runs open at a time. A batch holds the traffic of a few flows; what comes on top ends the oldest run, so the cost
/// of looking for a flow has a bound.
pub const MAX_OPEN: usize = 8;

/// What the TUN accepts as superpackets: the offloads that the kernel granted.
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
    /// Nothing is merged.
    pub const NONE: Offloads = Offloads { tcp4: false, tcp6: false, ecn: false, udp4: false, udp6: false };
    /// Everything is merged.
    pub const ALL: Offloads = Offloads { tcp4: true, tcp6: true, ecn: true, udp4: true, udp6: true };
}

/// What is to be written to the TUN with one system call: one packet, or one superpacket.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    header: VnetHeader,
    buffer: &'a [u8],
    parts: &'a [Part],
}

impl<'a> Run<'a> {
    /// The virtio header to put in front: zeros for a single packet with a complete checksum.
    #[must_use]
    pub const fn header(&self) -> VnetHeader {
        self.header
    }

    /// How many received packets it holds, 1 to [`MAX_RUN`]; the number of slices.
    #[must_use]
    pub const fn packets(&self) -> usize {
        self.parts.len()
    }

    /// Bytes of the IP packet or superpacket, without the virtio header.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(|part| usize::from(part.len)).sum()
    }

    /// The slices to write behind the virtio header, in order: the first packet whole, then the payloads of the others.
    pub fn slices(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let buffer = self.buffer;
        self.parts.iter().map(move |part| buffer.get(part.range()).unwrap_or_default())
    }
}

/// Where a slice of a run lies in the buffer.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    start: usize,
    len: u16,
}

impl Part {
    fn range(self) -> Range<usize> {
        self.start..self.start + usize::from(self.len)
    }
}

/// A run that may still grow.
#[derive(Clone, Copy, Debug)]
struct Open {
    flow: Flow,
    session: u32,
    /// Of the first packet: what the later ones are compared with.
    first: Candidate,
    /// What the next packet must carry.
    next_sequence: u32,
    next_id: u16,
    /// PSH and FIN of all packets together.
    flags: u8,
    /// Bytes of the IP packet so far.
    total: usize,
    parts: [Part; MAX_RUN],
    count: usize,
}

/// Merges the packets of one batch after the other. Its storage is fixed: about 9 KiB.
#[derive(Clone, Debug)]
pub struct Merger {
    offloads: Offloads,
    slots: [Open; MAX_OPEN],
    /// The slots in use, oldest first, and behind them the free ones.
    order: [usize; MAX_OPEN],
    open: usize,
}

const _: () = assert!(size_of::<Merger>() <= 9 * 1024, "a lane's memory is counted");

impl Merger {
    /// A merger for a TUN that accepts these superpackets.
    #[must_use]
    pub fn new(offloads: Offloads) -> Merger {
        Merger { offloads, slots: [Open::UNUSED; MAX_OPEN], order: core::array::from_fn(|slot| slot), open: 0 }
    }

    /// Whether no run is open: true after [`Merger::flush`].
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.open == 0
    }

    /// Takes the packet at `packet` in `buffer`, decrypted under session `session`. Bytes behind its IP length are
    /// left out. What is finished by it goes to `emit`, in the order in which it must be written.
    ///
    /// All packets between two calls of [`Merger::flush`] lie in the same `buffer`, and stay as they are until then.
    /// They come in counter order within a session.
    ///
    /// `partial` is of this very packet: the peer marked it, and the mark is off.
    ///
    /// # Errors
    /// [`MalformedIp`] if it is not an IP packet, or lies outside of `buffer`; nothing is emitted for it.
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
        let part = Part { start, len: low16(packet.bytes().len()) };
        match candidate::look(&packet, self.offloads, partial) {
            Sight::Other => {}
            Sight::Portless(hosts) => self.end_between(&hosts, buffer, &mut emit),
            Sight::Alone(flow) => {
                if let Some(at) = self.find(&flow) {
                    self.end(at, buffer, &mut emit);
                }
            }
            Sight::Fit(flow, candidate) => {
                self.take(flow, candidate, session, part, buffer, &mut emit);
                return Ok(());
            }
        }
        emit(Run { header: alone(partial), buffer, parts: &[part] });
        Ok(())
    }

    /// Ends all runs, oldest first. To be called at the end of each batch, before its buffer is used again.
    pub fn flush(&mut self, buffer: &mut [u8], mut emit: impl FnMut(Run<'_>)) {
        while self.open > 0 {
            self.end(0, buffer, &mut emit);
        }
    }

    /// Appends to the flow's run, or ends that and opens another.
    fn take(
        &mut self,
        flow: Flow,
        candidate: Candidate,
        session: u32,
        part: Part,
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
            emit(Run { header: alone(candidate.partial), buffer, parts: &[part] });
            return;
        }
        if self.open == MAX_OPEN {
            self.end(0, buffer, emit);
        }
        self.slots[self.order[self.open]].begin(flow, candidate, session, part);
        self.open += 1;
    }

    /// The place in `order` of the flow's run.
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

    /// Emits the run at `at` and frees its slot.
    fn end(&mut self, at: usize, buffer: &mut [u8], emit: &mut impl FnMut(Run<'_>)) {
        let slot = self.order[at];
        self.order[at..self.open].rotate_left(1);
        self.open -= 1;
        let run = &self.slots[slot];
        let header = run.finish(buffer);
        emit(Run { header, buffer, parts: &run.parts[..run.count] });
    }
}

impl Open {
    const UNUSED: Open = Open {
        flow: Flow::NONE,
        session: 0,
        first: Candidate::NONE,
        next_sequence: 0,
        next_id: 0,
        flags: 0,
        total: 0,
        parts: [Part { start: 0, len: 0 }; MAX_RUN],
        count: 0,
    };

    fn begin(&mut self, flow: Flow, candidate: Candidate, session: u32, part: Part) {
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

    /// Whether a packet of the same flow may be appended.
    fn accepts(&self, candidate: &Candidate, session: u32, part: Part, buffer: &[u8]) -> bool {
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

    /// UDP has no sequence: there every number is the next one.
    fn next_sequence_of(&self, candidate: &Candidate) -> u32 {
        if self.flow.protocol == ip::TCP { self.next_sequence } else { candidate.sequence }
    }

    /// Appends a packet's payload; true if that ends the run.
    fn append(&mut self, candidate: &Candidate, part: Part) -> bool {
        self.parts[self.count] = Part { start: part.start + usize::from(candidate.headers), len: candidate.payload };
        self.count += 1;
        self.total += usize::from(candidate.payload);
        self.next_sequence = self.next_sequence.wrapping_add(u32::from(candidate.payload));
        self.next_id = self.next_id.wrapping_add(1);
        self.flags |= candidate.flags & (tcp::PSH | tcp::FIN);
        candidate.payload < self.first.payload || candidate.flags & tcp::FIN != 0
    }

    /// Makes the first packet's header that of the whole run, unless it is alone, and returns the virtio header.
    fn finish(&self, buffer: &mut [u8]) -> VnetHeader {
        let Some(packet) = buffer.get_mut(self.parts[0].range()) else { return VnetHeader::NONE };
        if self.count == 1 {
            return alone(self.first.partial);
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

/// The header of a packet that was not merged.
fn alone(partial: Option<PartialChecksum>) -> VnetHeader {
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
