//! Splitting of a superpacket from the TUN into the packets for the wire.
//!
//! The kernel passes up to 64 KiB with one set of headers. [`Split`] writes one complete IP packet after the other into the caller's buffer, so that headers
//! and payload are copied once into the send buffer and sealed there. [`Split::new`] sums the parts that all segments share.
//!
//! Rules (`docs/spec`, "Splitting"): FIN and PSH only on the last segment, CWR only on the first, the IPv4 ID rises by one per segment, all checksums are
//! complete. Lengths come from the packet and its IP header. Of the virtio header only kind, segment size and position of the checksum are used, and they must
//! agree with the packet; `hdr_len` is a hint of the kernel and ignored.
//!
//! For a peer that accepts them ([`Split::allow_partial_checksums`]) checksums stay partial, see [`crate::partial_checksum`].
//!
//! For a path that carries shorter packets only, [`Split::limit_to`] makes the segments of TCP shorter.

use core::fmt;

use crate::bytes::{be16, be32, low16, put16, put32};
use crate::checksum::{self, Sum};
use crate::ip::{self, Packet, Version, v4, v6};
use crate::partial_checksum::{self, PartialChecksum};
use crate::vnet::{GSO_ECN, GSO_NONE, GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, VnetHeader};
use crate::{tcp, udp};

/// Length of the longest superpacket with its IP header, 65,535 bytes: the limit of IPv4's length field and of a TUN read.
pub const MAX_SUPERPACKET: usize = 65_535;

/// Limit on the segments of one superpacket, 8,192: [`MAX_SUPERPACKET`] in segments of 8 bytes, the smallest size that the kernel's TCP chooses
/// (`TCP_MIN_GSO_SIZE`, `include/net/tcp.h`). Nothing is stored per segment; the limit bounds the time that one header can cost a lane.
pub const MAX_SEGMENTS: usize = MAX_SUPERPACKET.div_ceil(8);

/// Why a superpacket cannot be split. Each is a drop reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsplittable {
    /// Not an IP packet.
    Ip(ip::MalformedIp),
    /// More than [`MAX_SUPERPACKET`] bytes.
    TooLarge {
        /// Length of the packet.
        len: usize,
    },
    /// A kind of superpacket that is not enabled.
    UnknownKind {
        /// `gso_type` of the virtio header.
        gso_type: u8,
    },
    /// The IP version or protocol of the packet does not match its kind.
    WrongProtocol {
        /// `gso_type` of the virtio header.
        gso_type: u8,
        /// Protocol of the packet.
        protocol: u8,
    },
    /// A fragment, or a packet with an IPv6 routing header, which cannot be a superpacket.
    NotWhole,
    /// The TCP or UDP header is truncated.
    Transport,
    /// The segment size is zero.
    ZeroSize,
    /// More than [`MAX_SEGMENTS`] segments.
    TooManySegments {
        /// Number of segments.
        segments: usize,
    },
    /// The partial checksum is outside the packet, or not at its protocol's position.
    ChecksumPlace {
        /// `csum_start` of the virtio header.
        start: u16,
        /// `csum_offset` of the virtio header.
        offset: u16,
    },
}

impl fmt::Display for Unsplittable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsplittable::Ip(reason) => write!(f, "a packet from the TUN cannot be split: {reason}"),
            Unsplittable::TooLarge { len } => {
                write!(f, "a packet from the TUN has {len} bytes, more than {MAX_SUPERPACKET}; lower gso_max_size")
            }
            Unsplittable::UnknownKind { gso_type } => {
                write!(f, "the TUN gave a superpacket of kind {gso_type}, which is not enabled; turn offloads off")
            }
            Unsplittable::WrongProtocol { gso_type, protocol } => {
                write!(f, "a superpacket of kind {gso_type} holds IP protocol {protocol}; turn offloads off")
            }
            Unsplittable::NotWhole => f.write_str("a superpacket is a fragment or source-routed; turn offloads off"),
            Unsplittable::Transport => f.write_str("a superpacket's TCP or UDP header is truncated; turn offloads off"),
            Unsplittable::ZeroSize => f.write_str("a superpacket has segment size zero; turn offloads off"),
            Unsplittable::TooManySegments { segments } => {
                write!(
                    f,
                    "a superpacket would have {segments} segments, more than {MAX_SEGMENTS}; raise the peer's MSS"
                )
            }
            Unsplittable::ChecksumPlace { start, offset } => {
                write!(f, "a partial checksum at {start}+{offset} does not fit its packet; turn offloads off")
            }
        }
    }
}

impl core::error::Error for Unsplittable {}

/// A packet from the TUN, to be sent as one or more segments.
#[derive(Clone, Debug)]
pub struct Split<'a> {
    packet: &'a [u8],
    plan: Plan,
    headers: usize,
    gso_size: usize,
    segments: usize,
    next: usize,
    /// The checksum is partial and at its protocol's position, and there are no IP options or extension headers.
    may_stay_partial: bool,
    /// Segments keep partial checksums and get the flag.
    stays_partial: bool,
}

/// Processing of each segment.
#[derive(Clone, Debug)]
enum Plan {
    /// One packet, unchanged.
    Whole,
    /// One packet with a partial checksum to complete.
    Complete { start: usize, field: usize },
    /// Segments of a superpacket.
    Segments(Template),
}

/// The parts that all segments share.
#[derive(Clone, Debug)]
struct Template {
    version: Version,
    /// Offset of the TCP or UDP header.
    transport: usize,
    /// Sum of the IPv4 header without length, ID and checksum.
    ip_sum: Sum,
    /// IPv4 ID of the first segment.
    id: u16,
    /// Sum of the pseudo header without the length.
    pseudo_header: Sum,
    /// Sum of the pseudo header and the TCP or UDP header, without the fields that differ between segments.
    transport_sum: Sum,
    protocol: Protocol,
}

#[derive(Clone, Copy, Debug)]
enum Protocol {
    /// Sequence number of the first segment, and the word with the flags.
    Tcp {
        sequence: u32,
        flags: u16,
    },
    Udp,
}

impl<'a> Split<'a> {
    /// Prepares the segments of `packet`, which was read from the TUN after `header`.
    ///
    /// Without GSO there is one segment: the packet, with its checksum completed.
    ///
    /// # Errors
    /// [`Unsplittable`] if header and packet do not match. The packet must not be sent.
    pub fn new(header: VnetHeader, packet: &'a [u8]) -> Result<Split<'a>, Unsplittable> {
        if packet.len() > MAX_SUPERPACKET {
            return Err(Unsplittable::TooLarge { len: packet.len() });
        }
        let ip = Packet::parse(packet).map_err(Unsplittable::Ip)?;
        if header.gso_type == GSO_NONE { Split::single(header, &ip) } else { Split::many(header, &ip) }
    }

    fn single(header: VnetHeader, ip: &Packet<'a>) -> Result<Split<'a>, Unsplittable> {
        let packet = ip.bytes();
        let mut may_stay_partial = false;
        let plan = if header.needs_checksum() {
            let start = usize::from(header.csum_start);
            let field = start + usize::from(header.csum_offset);
            if start < fixed_header_len(ip.version()) || field + 2 > packet.len() {
                return Err(checksum_place(header));
            }
            may_stay_partial = PartialChecksum::of(ip).is_some_and(|partial| partial.is_at(header));
            Plan::Complete { start, field }
        } else {
            Plan::Whole
        };
        Ok(Split {
            packet,
            plan,
            headers: 0,
            gso_size: packet.len(),
            segments: 1,
            next: 0,
            may_stay_partial,
            stays_partial: false,
        })
    }

    fn many(header: VnetHeader, ip: &Packet<'a>) -> Result<Split<'a>, Unsplittable> {
        let protocol = protocol_of(header.gso_type, ip)?;
        if ip.is_fragment() || ip.has_routing_header() {
            return Err(Unsplittable::NotWhole);
        }
        let (transport_len, csum_offset) = match protocol {
            ip::TCP => (
                tcp::Segment::parse(ip.payload()).map_err(|_| Unsplittable::Transport)?.header_len(),
                tcp::CHECKSUM_OFFSET,
            ),
            _ if ip.payload().len() < udp::HEADER => return Err(Unsplittable::Transport),
            _ => (udp::HEADER, udp::CHECKSUM_OFFSET),
        };
        let in_place = usize::from(header.csum_start) == ip.header_len() && header.csum_offset == csum_offset;
        if header.needs_checksum() && !in_place {
            return Err(checksum_place(header));
        }
        let headers = ip.header_len() + transport_len;
        let gso_size = usize::from(header.gso_size);
        if gso_size == 0 {
            return Err(Unsplittable::ZeroSize);
        }
        let segments = (ip.bytes().len() - headers).div_ceil(gso_size).max(1);
        if segments > MAX_SEGMENTS {
            return Err(Unsplittable::TooManySegments { segments });
        }
        let plan = Plan::Segments(Template::new(ip, transport_len));
        let may_stay_partial = header.needs_checksum() && !ip.has_options();
        Ok(Split {
            packet: ip.bytes(),
            plan,
            headers,
            gso_size,
            segments,
            next: 0,
            may_stay_partial,
            stays_partial: false,
        })
    }

    /// Keeps checksums partial and sets the flag of the segments, if the kernel's checksum is partial and at its usual position. Other packets are sent as
    /// without this call. To be called before the first [`Split::write_next`], and only for a peer that accepts partial checksums.
    pub fn allow_partial_checksums(&mut self) {
        self.stays_partial = self.may_stay_partial;
    }

    /// Makes segments that are longer than `limit` bytes shorter, which TCP allows. Returns true if no segment is longer now; otherwise nothing has changed.
    /// To be called before the first [`Split::write_next`].
    ///
    /// Not changed: datagrams of UDP, because each is a message; SYN and urgent data, whose position in the segment matters; fragments; a packet that is
    /// damaged, whose checksum would become correct.
    pub fn limit_to(&mut self, limit: usize) -> bool {
        self.largest() <= limit || self.cut_to(limit).is_some()
    }

    #[cold]
    fn cut_to(&mut self, limit: usize) -> Option<()> {
        let ip = Packet::parse(self.packet).ok()?;
        if ip.protocol() != ip::TCP || ip.is_fragment() || ip.has_routing_header() {
            return None;
        }
        let segment = tcp::Segment::parse(ip.payload()).ok()?;
        let checksum = ip.header_len() + usize::from(tcp::CHECKSUM_OFFSET);
        let is_sound = match &self.plan {
            Plan::Segments(_) => true,
            Plan::Complete { start, field } => (*start, *field) == (ip.header_len(), checksum),
            Plan::Whole => {
                let sum = ip.pseudo_header(low16(ip.payload().len())) + Sum::of(ip.payload());
                sum == checksum::VALID && ip.header_checksum_ok()
            }
        };
        let headers = ip.header_len() + segment.header_len();
        let gso_size = limit.checked_sub(headers).filter(|size| *size > 0)?;
        let segments = (self.packet.len() - headers).div_ceil(gso_size);
        if !is_sound || segment.flags() & (tcp::SYN | tcp::URG) != 0 || segments > MAX_SEGMENTS {
            return None;
        }
        if !matches!(self.plan, Plan::Segments(_)) {
            self.plan = Plan::Segments(Template::new(&ip, segment.header_len()));
        }
        (self.headers, self.gso_size, self.segments) = (headers, gso_size, segments);
        Some(())
    }

    /// Returns the number of segments, at least 1.
    #[must_use]
    pub const fn segments(&self) -> usize {
        self.segments
    }

    /// Returns the number of segments that are not written yet.
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.segments - self.next
    }

    /// Returns the length of the largest segment with its IP header. All segments except the last have this length.
    #[must_use]
    pub fn largest(&self) -> usize {
        self.packet.len().min(self.headers + self.gso_size)
    }

    /// Returns the length of the segment that [`Split::write_next`] writes next; `None` after the last.
    #[must_use]
    pub fn next_len(&self) -> Option<usize> {
        if self.next >= self.segments {
            return None;
        }
        let start = self.headers + self.next * self.gso_size;
        Some(self.headers + (self.packet.len() - start).min(self.gso_size))
    }

    /// Writes the next IP packet at the start of `out` and returns its length.
    ///
    /// Returns `None` after the last segment, and if `out` is shorter than [`Split::next_len`]; nothing is written then, and the segment remains the next one.
    pub fn write_next(&mut self, out: &mut [u8]) -> Option<usize> {
        let len = self.next_len()?;
        let out = out.get_mut(..len)?;
        let start = self.headers + self.next * self.gso_size;
        let payload = self.packet.get(start..start + len - self.headers)?;
        match &self.plan {
            Plan::Whole => out.copy_from_slice(payload),
            Plan::Complete { .. } if self.stays_partial => out.copy_from_slice(payload),
            Plan::Complete { start, field } => {
                out.copy_from_slice(payload);
                partial_checksum::complete(out, *start, *field);
            }
            Plan::Segments(template) => {
                let (head, body) = out.split_at_mut_checked(self.headers)?;
                head.copy_from_slice(self.packet.get(..self.headers)?);
                let sum = if self.stays_partial {
                    body.copy_from_slice(payload);
                    None
                } else {
                    Some(Sum::copying(payload, body))
                };
                template.patch(head, self.next, self.segments, self.next * self.gso_size, len, sum);
            }
        }
        if self.stays_partial {
            partial_checksum::set_flag(out);
        }
        self.next += 1;
        Some(len)
    }
}

const fn fixed_header_len(version: Version) -> usize {
    match version {
        Version::V4 => ip::V4_HEADER,
        Version::V6 => ip::V6_HEADER,
    }
}

const fn checksum_place(header: VnetHeader) -> Unsplittable {
    Unsplittable::ChecksumPlace { start: header.csum_start, offset: header.csum_offset }
}

/// Returns the protocol of a kind of superpacket, if the packet matches.
fn protocol_of(gso_type: u8, ip: &Packet<'_>) -> Result<u8, Unsplittable> {
    const TCPV4_ECN: u8 = GSO_TCPV4 | GSO_ECN;
    const TCPV6_ECN: u8 = GSO_TCPV6 | GSO_ECN;
    let (version, protocol) = match gso_type {
        GSO_TCPV4 | TCPV4_ECN => (Version::V4, ip::TCP),
        GSO_TCPV6 | TCPV6_ECN => (Version::V6, ip::TCP),
        GSO_UDP_L4 => (ip.version(), ip::UDP),
        _ => return Err(Unsplittable::UnknownKind { gso_type }),
    };
    if (version, protocol) == (ip.version(), ip.protocol()) {
        Ok(protocol)
    } else {
        Err(Unsplittable::WrongProtocol { gso_type, protocol: ip.protocol() })
    }
}

impl Template {
    fn new(ip: &Packet<'_>, transport_len: usize) -> Template {
        let bytes = ip.bytes();
        let transport = ip.header_len();
        let header = ip.payload().get(..transport_len).unwrap_or_default();
        let pseudo_header = ip.pseudo_header(0);
        let sum = pseudo_header + Sum::of(header);
        let (protocol, varying) = match ip.protocol() {
            ip::TCP => {
                let sequence = be32(header, tcp::field::SEQUENCE);
                let flags = be16(header, tcp::field::OFFSET);
                let checksum = be16(header, tcp::field::CHECKSUM);
                (Protocol::Tcp { sequence, flags }, Sum::double(sequence).plus(flags).plus(checksum))
            }
            _ => {
                let length = be16(header, udp::field::LENGTH);
                (Protocol::Udp, Sum::word(length).plus(be16(header, udp::field::CHECKSUM)))
            }
        };
        let id = be16(bytes, v4::ID);
        Template {
            version: ip.version(),
            transport,
            ip_sum: Sum::of(bytes.get(..transport).unwrap_or_default())
                .minus(be16(bytes, v4::TOTAL_LENGTH))
                .minus(id)
                .minus(be16(bytes, v4::CHECKSUM)),
            id,
            pseudo_header,
            transport_sum: sum.minus(varying.folded()),
            protocol,
        }
    }

    /// Changes a copy of the headers to those of segment `index`. Its packet has `len` bytes; its payload begins at `offset` in the superpacket's payload and has
    /// the sum `payload`. Without that sum the checksum stays partial.
    #[inline]
    fn patch(&self, head: &mut [u8], index: usize, segments: usize, offset: usize, len: usize, payload: Option<Sum>) {
        self.patch_ip(head, index, len);
        let length = low16(len - self.transport);
        let Some(header) = head.get_mut(self.transport..) else { return };
        let sum = payload.map(|payload| self.transport_sum.plus(length) + payload);
        let partial = self.pseudo_header.plus(length).folded();
        match self.protocol {
            Protocol::Tcp { sequence, flags } => {
                let sequence = sequence.wrapping_add(u32::from(low16(offset)));
                let flags = flags & segment_flags(index, segments);
                put32(header, tcp::field::SEQUENCE, sequence);
                put16(header, tcp::field::OFFSET, flags);
                let complete = |sum: Sum| (sum + Sum::double(sequence)).plus(flags).checksum();
                put16(header, tcp::field::CHECKSUM, sum.map_or(partial, complete));
            }
            Protocol::Udp => {
                put16(header, udp::field::LENGTH, length);
                let complete = |sum: Sum| sum.plus(length).udp_checksum();
                put16(header, udp::field::CHECKSUM, sum.map_or(partial, complete));
            }
        }
    }

    #[inline]
    fn patch_ip(&self, head: &mut [u8], index: usize, len: usize) {
        match self.version {
            Version::V4 => {
                let id = self.id.wrapping_add(low16(index));
                put16(head, v4::TOTAL_LENGTH, low16(len));
                put16(head, v4::ID, id);
                put16(head, v4::CHECKSUM, self.ip_sum.plus(low16(len)).plus(id).checksum());
            }
            Version::V6 => put16(head, v6::PAYLOAD_LENGTH, low16(len - ip::V6_HEADER)),
        }
    }
}

/// Returns a mask of the flags that a segment keeps: FIN and PSH on the last only, CWR on the first only.
const fn segment_flags(index: usize, segments: usize) -> u16 {
    let mut cleared = 0;
    if index > 0 {
        cleared |= tcp::CWR;
    }
    if index + 1 < segments {
        cleared |= tcp::FIN | tcp::PSH;
    }
    !(cleared as u16)
}

#[cfg(test)]
mod tests;
