//! Classification of a packet before it may be merged.

use crate::bytes::{array, be16, u8_at};
use crate::checksum::Sum;
use crate::ip::{self, Packet, Version, v4, v6};
use crate::merge::Offloads;
use crate::partial_checksum::PartialChecksum;
use crate::{tcp, udp};

/// How a packet relates to flows and runs.
pub(super) enum Class {
    /// The packet is neither TCP nor UDP, so it has no order to keep.
    NoFlow,
    /// A fragment, or a packet too short for ports, which may belong to any flow between its hosts.
    Portless(Flow),
    /// The packet belongs to this flow but must not be merged.
    Unmergeable(Flow),
    /// The packet may start or continue a run: its checksums are correct, or its transport checksum is partial.
    Mergeable(Flow, Candidate),
}

/// A flow: protocol, addresses and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    ports: [u8; 4],
    pub(super) protocol: u8,
    pub(super) version: Version,
    /// Source and destination as in the packet; zeros follow those of IPv4.
    addresses: [u8; 32],
}

impl Flow {
    pub(super) const NONE: Flow = Flow { ports: [0; 4], protocol: 0, version: Version::V4, addresses: [0; 32] };

    fn new(packet: &Packet<'_>, ports: [u8; 4]) -> Flow {
        let mut addresses = [0; 32];
        match packet.version() {
            Version::V4 => {
                if let (Some(to), Some(from)) = (addresses.first_chunk_mut::<8>(), array(packet.bytes(), v4::SOURCE)) {
                    *to = *from;
                }
            }
            Version::V6 => {
                if let Some(from) = array(packet.bytes(), v6::SOURCE) {
                    addresses = *from;
                }
            }
        }
        Flow { ports, protocol: packet.protocol(), version: packet.version(), addresses }
    }

    pub(super) fn same_hosts(&self, other: &Flow) -> bool {
        self.version == other.version && self.addresses == other.addresses
    }

    /// Returns the sum of the pseudo header for a message of `length` bytes.
    pub(super) fn pseudo_header(&self, length: u16) -> Sum {
        Sum::of(&self.addresses).plus(u16::from(self.protocol)).plus(length)
    }
}

/// A packet that qualifies, with the fields that decide whether it continues a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// Offset of the TCP or UDP header.
    pub(super) transport: u16,
    /// Length of all headers.
    pub(super) headers: u16,
    /// Length of the payload, at least 1.
    pub(super) payload: u16,
    /// TCP sequence number; 0 for UDP.
    pub(super) sequence: u32,
    /// TCP flags; 0 for UDP.
    pub(super) flags: u8,
    /// IPv4 ID; 0 for IPv6.
    pub(super) id: u16,
    /// The ID has no meaning: DF is set, or the packet is IPv6.
    pub(super) dont_fragment: bool,
    /// The partial checksum, if the packet has one.
    pub(super) partial: Option<PartialChecksum>,
}

/// Returns the class of a packet. Checksums are verified last, because they cost most.
pub(super) fn classify(packet: &Packet<'_>, offloads: Offloads, partial: Option<PartialChecksum>) -> Class {
    if packet.is_fragment() {
        return Class::Portless(Flow::new(packet, [0; 4]));
    }
    if !matches!(packet.protocol(), ip::TCP | ip::UDP) {
        return Class::NoFlow;
    }
    let Some(ports) = array(packet.payload(), 0) else {
        return Class::Portless(Flow::new(packet, [0; 4]));
    };
    let flow = Flow::new(packet, *ports);
    if packet.has_options() {
        return Class::Unmergeable(flow);
    }
    let candidate = match (packet.protocol(), packet.version()) {
        (ip::TCP, Version::V4) if offloads.tcp4 => tcp_candidate(packet, offloads, partial),
        (ip::TCP, Version::V6) if offloads.tcp6 => tcp_candidate(packet, offloads, partial),
        (ip::UDP, Version::V4) if offloads.udp4 => udp_candidate(packet, partial),
        (ip::UDP, Version::V6) if offloads.udp6 => udp_candidate(packet, partial),
        _ => None,
    };
    match candidate {
        Some(candidate) if packet.header_checksum_ok() => Class::Mergeable(flow, candidate),
        _ => Class::Unmergeable(flow),
    }
}

fn tcp_candidate(packet: &Packet<'_>, offloads: Offloads, partial: Option<PartialChecksum>) -> Option<Candidate> {
    let segment = tcp::Segment::parse(packet.payload()).ok()?;
    let flags = segment.flags();
    let forbidden = tcp::SYN | tcp::RST | tcp::URG | if offloads.ecn { 0 } else { tcp::CWR };
    if flags & forbidden != 0 || flags & tcp::ACK == 0 {
        return None;
    }
    let candidate = Candidate::new(packet, segment.header_len(), segment.sequence(), flags, partial)?;
    let right = partial.is_some() || segment.checksum_ok(packet.pseudo_header(transport_len(packet)));
    right.then_some(candidate)
}

fn udp_candidate(packet: &Packet<'_>, partial: Option<PartialChecksum>) -> Option<Candidate> {
    let datagram = udp::Datagram::parse(packet.payload()).ok()?;
    if datagram.length() != packet.payload().len() {
        return None;
    }
    let candidate = Candidate::new(packet, udp::HEADER, 0, 0, partial)?;
    let right = partial.is_some() || datagram.checksum_ok(packet.pseudo_header(transport_len(packet)));
    right.then_some(candidate)
}

fn transport_len(packet: &Packet<'_>) -> u16 {
    crate::bytes::low16(packet.payload().len())
}

impl Candidate {
    pub(super) const NONE: Candidate = Candidate {
        transport: 0,
        headers: 0,
        payload: 0,
        sequence: 0,
        flags: 0,
        id: 0,
        dont_fragment: false,
        partial: None,
    };

    /// Returns `None` without payload, and if a length exceeds 16 bits.
    fn new(
        packet: &Packet<'_>,
        transport_len: usize,
        sequence: u32,
        flags: u8,
        partial: Option<PartialChecksum>,
    ) -> Option<Candidate> {
        let headers = packet.header_len() + transport_len;
        let payload = packet.bytes().len().checked_sub(headers).filter(|&payload| payload > 0)?;
        let (id, dont_fragment) = match packet.version() {
            Version::V4 => (be16(packet.bytes(), v4::ID), be16(packet.bytes(), v4::FLAGS) & v4::DONT_FRAGMENT != 0),
            Version::V6 => (0, true),
        };
        Some(Candidate {
            transport: u16::try_from(packet.header_len()).ok()?,
            headers: u16::try_from(headers).ok()?,
            payload: u16::try_from(payload).ok()?,
            sequence,
            flags,
            id,
            dont_fragment,
            partial,
        })
    }

    /// Returns true if the headers of two packets of a flow are equal in all fields that a superpacket has only once. `self` is the first packet of a run, and
    /// `first` its bytes.
    pub(super) fn same_headers(&self, other: &Candidate, version: Version, first: &[u8], packet: &[u8]) -> bool {
        let transport = usize::from(self.transport);
        let (Some(first_tcp), Some(packet_tcp)) =
            (first.get(transport..usize::from(self.headers)), packet.get(transport..usize::from(other.headers)))
        else {
            return false;
        };
        same_ip(version, first, packet)
            && (first_tcp.len() == udp::HEADER || self.same_tcp(other, first_tcp, packet_tcp))
    }

    fn same_tcp(&self, other: &Candidate, first: &[u8], packet: &[u8]) -> bool {
        // PSH and FIN are collected on the superpacket; CWR belongs to the first packet only.
        const GATHERED: u8 = tcp::PSH | tcp::FIN | tcp::CWR;
        other.flags & tcp::CWR == 0
            && self.flags & !GATHERED == other.flags & !GATHERED
            && first.get(tcp::field::ACKNOWLEDGEMENT..tcp::field::FLAGS)
                == packet.get(tcp::field::ACKNOWLEDGEMENT..tcp::field::FLAGS)
            && be16(first, tcp::field::WINDOW) == be16(packet, tcp::field::WINDOW)
            // To the end of the options, so that equal bytes mean equal header lengths.
            && first.get(tcp::field::URGENT..) == packet.get(tcp::field::URGENT..)
    }
}

/// Returns true if TOS or traffic class, TTL or hop limit, DF and flow label are equal.
fn same_ip(version: Version, first: &[u8], packet: &[u8]) -> bool {
    match version {
        Version::V4 => {
            first.get(..v4::TOTAL_LENGTH) == packet.get(..v4::TOTAL_LENGTH)
                && first.get(v4::FLAGS..v4::PROTOCOL) == packet.get(v4::FLAGS..v4::PROTOCOL)
        }
        Version::V6 => {
            first.get(..v6::PAYLOAD_LENGTH) == packet.get(..v6::PAYLOAD_LENGTH)
                && u8_at(first, v6::HOP_LIMIT) == u8_at(packet, v6::HOP_LIMIT)
        }
    }
}
