//! Classifies a packet for the filter: addresses, protocol, ports, fragments and ICMP errors.

use std::net::IpAddr;

use taut_wire::icmp::{ErrorAbout, Quoted};
use taut_wire::ip::{ICMP, ICMPV6, Packet, TCP, UDP, Version};
use taut_wire::tcp::{self, Segment};
use taut_wire::udp;

use crate::protocol::{SCTP, has_ports};

/// Length of the common header of SCTP, 12 bytes (RFC 9260, 3.1).
const SCTP_HEADER: usize = 12;
/// Types of ICMP echo: the reply, and the request (RFC 792; RFC 4443, 4.1 and 4.2).
const V4_ECHO: (u8, u8) = (0, 8);
const V6_ECHO: (u8, u8) = (129, 128);
/// Length of the header of an ICMP echo, 8 bytes.
const ECHO_HEADER: usize = 8;

/// A packet as the filter sees it: the protocol behind all extension headers, and the fields of the upper-layer header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classified {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol number of the upper layer.
    pub protocol: u8,
    /// The fields of the upper-layer header.
    pub transport: Transport,
}

/// The fields of the upper-layer header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP, UDP and SCTP.
    Ports {
        /// Source port.
        source: u16,
        /// Destination port.
        destination: u16,
        /// True if the packet opens a TCP connection: SYN without ACK. UDP and SCTP packets never do.
        opens: bool,
        /// True if the packet ends a TCP connection: FIN or RST.
        ends: bool,
    },
    /// ICMP echo.
    Echo {
        /// Identifier.
        ident: u16,
        /// True for a reply.
        reply: bool,
    },
    /// An ICMP error, with what it quotes if that can be read.
    Error(Option<Quoted>),
    /// A fragment other than the first: it has no upper-layer header.
    LaterFragment {
        /// The packet's identification, which all its fragments share.
        ident: u32,
        /// Bytes of the packet's payload before this fragment.
        offset: usize,
    },
    /// A protocol without ports, or another message of ICMP.
    Other,
}

/// The reason for which a packet cannot be classified. Such a packet is dropped, because the rules cannot be applied to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The header of the upper layer is cut off or wrong.
    Malformed,
    /// The first fragment does not contain the whole header of the upper layer, so that its ports could be in another fragment (RFC 1858).
    TinyFragment,
}

impl Classified {
    /// Classifies a packet.
    ///
    /// # Errors
    /// [`Refusal`] if its upper layer cannot be read.
    pub fn of(packet: &Packet<'_>) -> Result<Self, Refusal> {
        let transport = match packet.fragment_part() {
            Some(part) if packet.is_later_fragment() => {
                Transport::LaterFragment { ident: part.ident, offset: part.offset }
            }
            part => transport(packet).ok_or(if part.is_some() { Refusal::TinyFragment } else { Refusal::Malformed })?,
        };
        let (source, destination, protocol) = (packet.source(), packet.destination(), packet.protocol());
        Ok(Self { source, destination, protocol, transport })
    }

    /// Returns the destination port; `None` for a packet without ports.
    pub fn port(&self) -> Option<u16> {
        match self.transport {
            Transport::Ports { destination, .. } => Some(destination),
            _ => None,
        }
    }

    /// Returns the port that rules are asked about; 0 for a protocol without ports.
    pub fn rule_port(&self) -> u16 {
        self.port().unwrap_or(0)
    }
}

/// Reads the header of the upper layer. Returns `None` if it is cut off or wrong.
fn transport(packet: &Packet<'_>) -> Option<Transport> {
    let bytes = packet.payload();
    match packet.protocol() {
        TCP => {
            let segment = Segment::parse(bytes).ok()?;
            let flags = segment.flags();
            Some(Transport::Ports {
                source: segment.source(),
                destination: segment.destination(),
                opens: flags & (tcp::SYN | tcp::ACK) == tcp::SYN,
                ends: flags & (tcp::FIN | tcp::RST) != 0,
            })
        }
        UDP => ports(bytes, udp::HEADER),
        SCTP => ports(bytes, SCTP_HEADER),
        protocol @ (ICMP | ICMPV6) => Some(icmp(packet, protocol, bytes)),
        _ => Some(Transport::Other),
    }
}

fn ports(bytes: &[u8], header: usize) -> Option<Transport> {
    let (source, destination) = port_pair(bytes.get(..header)?)?;
    Some(Transport::Ports { source, destination, opens: false, ends: false })
}

/// Reads the two ports at the start of an upper-layer header.
fn port_pair(bytes: &[u8]) -> Option<(u16, u16)> {
    let [a, b, c, d] = *bytes.first_chunk::<4>()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

fn icmp(packet: &Packet<'_>, protocol: u8, bytes: &[u8]) -> Transport {
    // ICMP for IPv4 in an IPv6 packet, or the reverse, is treated like any unknown protocol.
    let (reply, request) = match (packet.version(), protocol) {
        (Version::V4, ICMP) => V4_ECHO,
        (Version::V6, ICMPV6) => V6_ECHO,
        _ => return Transport::Other,
    };
    if ErrorAbout::of(packet) != ErrorAbout::Nothing {
        return Transport::Error(Quoted::of(packet));
    }
    match bytes.first_chunk::<ECHO_HEADER>() {
        Some([kind, 0, _, _, high, low, ..]) if *kind == reply || *kind == request => {
            Transport::Echo { ident: u16::from_be_bytes([*high, *low]), reply: *kind == reply }
        }
        _ => Transport::Other,
    }
}

/// The flow of a packet that an ICMP error quotes: its two ports, or the identifier of an echo request and 0.
pub(crate) fn quoted_ports(quoted: &Quoted) -> Option<(u16, u16)> {
    let [kind, _, _, _, high, low, ..] = quoted.head;
    match quoted.protocol {
        protocol if has_ports(protocol) => port_pair(&quoted.head),
        ICMP if kind == V4_ECHO.1 => Some((u16::from_be_bytes([high, low]), 0)),
        ICMPV6 if kind == V6_ECHO.1 => Some((u16::from_be_bytes([high, low]), 0)),
        ICMP | ICMPV6 => None,
        _ => Some((0, 0)),
    }
}

#[cfg(test)]
mod tests;
