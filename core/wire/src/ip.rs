//! Checked views of IPv4 (RFC 791) and IPv6 (RFC 8200) packets.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::bytes::{array, be16, be32, u8_at};
use crate::checksum::{self, Sum};

/// Protocol number of ICMP (IANA).
pub const ICMP: u8 = 1;
/// Protocol number of TCP (IANA).
pub const TCP: u8 = 6;
/// Protocol number of UDP (IANA).
pub const UDP: u8 = 17;
/// Protocol number of ICMPv6 (IANA).
pub const ICMPV6: u8 = 58;

/// Length of an IPv4 header without options, 20 bytes.
pub const V4_HEADER: usize = 20;
/// Length of the IPv6 header without extension headers, 40 bytes.
pub const V6_HEADER: usize = 40;

/// Limit on the extension headers of a packet, 8: more than in any real packet, and a bound on the cost of a forged one.
pub const MAX_EXTENSIONS: usize = 8;

/// Offsets of the fields of an IPv4 header (RFC 791, 3.1).
pub(crate) mod v4 {
    pub(crate) const TOS: usize = 1;
    pub(crate) const TOTAL_LENGTH: usize = 2;
    pub(crate) const ID: usize = 4;
    pub(crate) const FLAGS: usize = 6;
    pub(crate) const TTL: usize = 8;
    pub(crate) const PROTOCOL: usize = 9;
    pub(crate) const CHECKSUM: usize = 10;
    pub(crate) const SOURCE: usize = 12;
    pub(crate) const DESTINATION: usize = 16;
    /// "Do not fragment", in the word at [`FLAGS`].
    pub(crate) const DONT_FRAGMENT: u16 = 0x4000;
    /// "More fragments" and the fragment offset, in the word at [`FLAGS`].
    pub(crate) const FRAGMENT: u16 = 0x3fff;
    /// The fragment offset, in the word at [`FLAGS`].
    pub(crate) const OFFSET: u16 = 0x1fff;
}

/// Offsets of the fields of an IPv6 header (RFC 8200, 3).
pub(crate) mod v6 {
    pub(crate) const PAYLOAD_LENGTH: usize = 4;
    pub(crate) const NEXT_HEADER: usize = 6;
    pub(crate) const HOP_LIMIT: usize = 7;
    pub(crate) const SOURCE: usize = 8;
    pub(crate) const DESTINATION: usize = 24;
}

/// Why bytes are not an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MalformedIp {
    /// No bytes. Inside a session this is a keepalive.
    Empty,
    /// The version is neither 4 nor 6.
    Version,
    /// Fewer bytes than the header, or an IPv4 header length below 20.
    Header,
    /// The length field exceeds the bytes, or is shorter than the header.
    Length,
    /// An IPv6 extension header is truncated, or there are more than [`MAX_EXTENSIONS`].
    Extension,
}

impl fmt::Display for MalformedIp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MalformedIp::Empty => "the packet is empty",
            MalformedIp::Version => "the packet is neither IPv4 nor IPv6; only IP goes through the tunnel",
            MalformedIp::Header => "the IP header is cut off; the packet is dropped",
            MalformedIp::Length => "the IP length does not fit the bytes received; the packet is dropped",
            MalformedIp::Extension => "the IPv6 extension headers are cut off or too many; the packet is dropped",
        })
    }
}

impl core::error::Error for MalformedIp {}

/// The version of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// The position of a fragment in its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentPart {
    /// The packet's identification, which all its fragments share (16 bits in IPv4).
    pub ident: u32,
    /// Bytes of the packet's payload before this fragment.
    pub offset: usize,
    /// Bytes of the packet's payload in this fragment.
    pub length: usize,
}

/// An IP packet with checked lengths, so that no accessor can fail.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    version: Version,
    transport: usize,
    protocol: u8,
    fragment: bool,
    /// True for a fragment of IPv6 other than the first.
    later_v6: bool,
    /// Offset of the IPv6 fragment header; 0 without one.
    fragment_at: usize,
    extras: bool,
    routing: bool,
}

impl<'a> Packet<'a> {
    /// Reads the packet at the start of `bytes`. Bytes beyond its IP length, such as WireGuard's padding, are ignored.
    ///
    /// [`Packet::header_checksum_ok`] verifies the header checksum of IPv4; this function does not.
    ///
    /// # Errors
    /// [`MalformedIp`] if the bytes are not an IP packet.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, MalformedIp> {
        match bytes.first().ok_or(MalformedIp::Empty)? >> 4 {
            4 => Packet::parse_v4(bytes),
            6 => Packet::parse_v6(bytes),
            _ => Err(MalformedIp::Version),
        }
    }

    #[inline]
    fn parse_v4(bytes: &'a [u8]) -> Result<Packet<'a>, MalformedIp> {
        let header = usize::from(u8_at(bytes, 0) & 0x0f) * 4;
        if header < V4_HEADER || bytes.len() < header {
            return Err(MalformedIp::Header);
        }
        let total = usize::from(be16(bytes, v4::TOTAL_LENGTH));
        if total < header {
            return Err(MalformedIp::Length);
        }
        Ok(Packet {
            bytes: bytes.get(..total).ok_or(MalformedIp::Length)?,
            version: Version::V4,
            transport: header,
            protocol: u8_at(bytes, v4::PROTOCOL),
            fragment: be16(bytes, v4::FLAGS) & v4::FRAGMENT != 0,
            later_v6: false,
            fragment_at: 0,
            extras: header > V4_HEADER,
            routing: false,
        })
    }

    #[inline]
    fn parse_v6(bytes: &'a [u8]) -> Result<Packet<'a>, MalformedIp> {
        if bytes.len() < V6_HEADER {
            return Err(MalformedIp::Header);
        }
        let total = V6_HEADER + usize::from(be16(bytes, v6::PAYLOAD_LENGTH));
        let mut packet = Packet {
            bytes: bytes.get(..total).ok_or(MalformedIp::Length)?,
            version: Version::V6,
            transport: V6_HEADER,
            protocol: u8_at(bytes, v6::NEXT_HEADER),
            fragment: false,
            later_v6: false,
            fragment_at: 0,
            extras: false,
            routing: false,
        };
        for _ in 0..MAX_EXTENSIONS {
            if !packet.skip_extension()? {
                return Ok(packet);
            }
        }
        if is_extension(packet.protocol) { Err(MalformedIp::Extension) } else { Ok(packet) }
    }

    /// Skips one extension header (RFC 8200, 4). Returns false at the upper layer, and in a fragment other than the first, which has no more headers.
    #[inline]
    fn skip_extension(&mut self) -> Result<bool, MalformedIp> {
        if !is_extension(self.protocol) {
            return Ok(false);
        }
        let header: &[u8; 8] = array(self.bytes, self.transport).ok_or(MalformedIp::Extension)?;
        let transport = self.transport + extension_length(self.protocol, header);
        if transport > self.bytes.len() {
            return Err(MalformedIp::Extension);
        }
        let fragment = self.protocol == extension::FRAGMENT;
        self.extras = true;
        self.fragment |= fragment;
        if fragment {
            self.fragment_at = self.transport;
        }
        self.routing |= self.protocol == extension::ROUTING;
        self.transport = transport;
        self.protocol = header[0];
        self.later_v6 = fragment && be16(header, 2) >> 3 != 0;
        Ok(!self.later_v6)
    }

    /// Returns the packet without bytes beyond its IP length.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the IP version.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Returns the source address.
    #[must_use]
    #[inline]
    pub fn source(&self) -> IpAddr {
        match self.version {
            Version::V4 => self.v4_address(v4::SOURCE),
            Version::V6 => self.v6_address(v6::SOURCE),
        }
    }

    /// Returns the destination address.
    #[must_use]
    #[inline]
    pub fn destination(&self) -> IpAddr {
        match self.version {
            Version::V4 => self.v4_address(v4::DESTINATION),
            Version::V6 => self.v6_address(v6::DESTINATION),
        }
    }

    #[inline]
    fn v4_address(&self, at: usize) -> IpAddr {
        IpAddr::V4(array(self.bytes, at).map_or(Ipv4Addr::UNSPECIFIED, |&octets| Ipv4Addr::from(octets)))
    }

    #[inline]
    fn v6_address(&self, at: usize) -> IpAddr {
        IpAddr::V6(array(self.bytes, at).map_or(Ipv6Addr::UNSPECIFIED, |&octets| Ipv6Addr::from(octets)))
    }

    /// Returns the upper layer's protocol, after all extension headers. For an IPv6 fragment other than the first, it is the one in the fragment header, which
    /// may be another extension header.
    #[must_use]
    pub const fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Returns the length of the IP header with its options or extension headers.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        self.transport
    }

    /// Returns the upper layer: the bytes after the IP header and its extension headers.
    #[must_use]
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(self.transport..).unwrap_or_default()
    }

    /// Returns true if this is a fragment, including the first one. Other fragments have no upper-layer header.
    #[must_use]
    pub const fn is_fragment(&self) -> bool {
        self.fragment
    }

    /// Returns true if this is a fragment other than the first. It has no upper-layer header.
    #[must_use]
    pub fn is_later_fragment(&self) -> bool {
        self.fragment
            && match self.version {
                Version::V4 => be16(self.bytes, v4::FLAGS) & v4::OFFSET != 0,
                Version::V6 => self.later_v6,
            }
    }

    /// Returns the position of this fragment in its packet; `None` for a whole packet, also if that has a fragment header (an atomic fragment, RFC 6946: no others belong to it).
    #[must_use]
    pub fn fragment_part(&self) -> Option<FragmentPart> {
        /// "More fragments" and the offset, in the word of an IPv6 fragment header.
        const V6_FRAGMENT: u16 = 0xfff9;
        if !self.fragment || self.version == Version::V6 && be16(self.bytes, self.fragment_at + 2) & V6_FRAGMENT == 0 {
            return None;
        }
        Some(match self.version {
            Version::V4 => FragmentPart {
                ident: u32::from(be16(self.bytes, v4::ID)),
                offset: usize::from(be16(self.bytes, v4::FLAGS) & v4::OFFSET) * 8,
                length: self.bytes.len().saturating_sub(self.transport),
            },
            Version::V6 => FragmentPart {
                ident: be32(self.bytes, self.fragment_at + 4),
                offset: usize::from(be16(self.bytes, self.fragment_at + 2) >> 3) * 8,
                length: self.bytes.len().saturating_sub(self.fragment_at + 8),
            },
        })
    }

    /// Returns true if there are IPv4 options or IPv6 extension headers.
    #[must_use]
    pub const fn has_options(&self) -> bool {
        self.extras
    }

    /// Returns true if there is an IPv6 routing header, with which the pseudo header may have another destination (RFC 8200, 8.1).
    #[must_use]
    pub const fn has_routing_header(&self) -> bool {
        self.routing
    }

    /// Returns true if the packet names another destination than the one in its header: an IPv6 routing header, or an IPv4 source route
    /// (RFC 791, 3.1: options 131 and 137).
    #[must_use]
    #[inline]
    pub fn is_source_routed(&self) -> bool {
        self.extras && (self.routing || self.has_source_route())
    }

    #[cold]
    fn has_source_route(&self) -> bool {
        let mut options = match self.version {
            Version::V4 => self.bytes.get(V4_HEADER..self.transport).unwrap_or_default(),
            Version::V6 => return false,
        };
        while let Some((kind, rest)) = options.split_first() {
            options = match kind {
                // End of options.
                0 => return false,
                // No operation: one byte.
                1 => rest,
                131 | 137 => return true,
                // The length includes kind and length. A wrong length ends the list.
                _ => match rest.first().and_then(|length| rest.get(usize::from(*length).checked_sub(1)?..)) {
                    Some(next) if next.len() < rest.len() => next,
                    _ => return false,
                },
            };
        }
        false
    }

    /// Returns the traffic class, or the TOS of IPv4: DSCP in the upper six bits, ECN in the lower two.
    #[must_use]
    pub fn traffic_class(&self) -> u8 {
        match self.version {
            Version::V4 => u8_at(self.bytes, v4::TOS),
            Version::V6 => (u8_at(self.bytes, 0) << 4) | (u8_at(self.bytes, 1) >> 4),
        }
    }

    /// Returns true if the header checksum of IPv4 is correct. IPv6 has none, so the result is true.
    #[must_use]
    #[inline]
    pub fn header_checksum_ok(&self) -> bool {
        match self.version {
            Version::V4 => Sum::of(self.bytes.get(..self.transport).unwrap_or_default()) == checksum::VALID,
            Version::V6 => true,
        }
    }

    /// Returns the sum of the pseudo header for an upper-layer message of `length` bytes.
    #[must_use]
    #[inline]
    pub fn pseudo_header(&self, length: u16) -> Sum {
        let addresses = match self.version {
            Version::V4 => self.bytes.get(v4::SOURCE..V4_HEADER),
            Version::V6 => self.bytes.get(v6::SOURCE..V6_HEADER),
        };
        Sum::of(addresses.unwrap_or_default()).plus(u16::from(self.protocol)).plus(length)
    }
}

/// IPv6 extension headers that other headers may follow (IANA, "IPv6 Extension Header Types").
mod extension {
    pub(super) const HOP_BY_HOP: u8 = 0;
    pub(super) const ROUTING: u8 = 43;
    pub(super) const FRAGMENT: u8 = 44;
    pub(super) const AUTHENTICATION: u8 = 51;
    pub(super) const DESTINATION: u8 = 60;
    pub(super) const MOBILITY: u8 = 135;
    pub(super) const HIP: u8 = 139;
    pub(super) const SHIM6: u8 = 140;
}

/// Returns where the upper layer of an IPv6 packet begins, and its protocol. The packet may be cut off behind its extension headers, as errors quote it. Returns `None` if the
/// headers are cut off, are too many, or belong to a fragment other than the first.
pub(crate) fn upper_layer_v6(bytes: &[u8]) -> Option<(usize, u8)> {
    let (mut at, mut protocol) = (V6_HEADER, u8_at(bytes, v6::NEXT_HEADER));
    for _ in 0..=MAX_EXTENSIONS {
        if !is_extension(protocol) {
            return Some((at, protocol));
        }
        let header: &[u8; 8] = array(bytes, at)?;
        if protocol == extension::FRAGMENT && be16(header, 2) >> 3 != 0 {
            return None;
        }
        at += extension_length(protocol, header);
        protocol = header[0];
    }
    None
}

/// Returns the length of an extension header (RFC 8200, 4; RFC 4302, 2.2).
fn extension_length(protocol: u8, header: &[u8; 8]) -> usize {
    match protocol {
        extension::FRAGMENT => 8,
        extension::AUTHENTICATION => (usize::from(header[1]) + 2) * 4,
        _ => (usize::from(header[1]) + 1) * 8,
    }
}

/// Returns true if `protocol` is an extension header. ESP does not count, because the bytes after it are encrypted.
#[inline]
const fn is_extension(protocol: u8) -> bool {
    matches!(
        protocol,
        extension::HOP_BY_HOP
            | extension::ROUTING
            | extension::FRAGMENT
            | extension::AUTHENTICATION
            | extension::DESTINATION
            | extension::MOBILITY
            | extension::HIP
            | extension::SHIM6
    )
}

#[cfg(test)]
mod tests;
