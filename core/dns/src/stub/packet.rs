//! The packets that the stub sends: IP, UDP and TCP headers around an answer.

use std::net::{IpAddr, SocketAddr};

use taut_wire::checksum::{Sum, pseudo_v4, pseudo_v6};
use taut_wire::icmp::HOP_LIMIT;
use taut_wire::ip::{self, V4_HEADER, V6_HEADER};
use taut_wire::{tcp, udp};

/// The two ends of a packet to the stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    /// The program that asks.
    pub(super) client: SocketAddr,
    /// The stub.
    pub(super) stub: SocketAddr,
}

/// The fields of a TCP header that differ between segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TcpFields {
    pub(super) sequence: u32,
    pub(super) acknowledgement: u32,
    pub(super) flags: u8,
    pub(super) window: u16,
    /// The only option: the longest segment that the stub takes, in bytes (RFC 9293 section 3.7.1).
    pub(super) segment_size: Option<u16>,
}

impl Flow {
    /// Returns the length of a packet's IP header.
    pub(super) fn ip_header(&self) -> usize {
        if self.stub.is_ipv4() { V4_HEADER } else { V6_HEADER }
    }

    /// Returns a packet to the client with a UDP datagram; `None` if it would be too long for one.
    pub(super) fn datagram(&self, payload: &[u8]) -> Option<Box<[u8]>> {
        let length = u16::try_from(udp::HEADER + payload.len()).ok()?;
        let ports = [self.stub.port(), self.client.port(), length].map(u16::to_be_bytes);
        let sum = self.pseudo_header(ip::UDP, length)? + Sum::of(ports.as_flattened()) + Sum::of(payload);
        let header = [ports.as_flattened(), &sum.udp_checksum().to_be_bytes()].concat();
        self.packet(ip::UDP, &header, payload)
    }

    /// Returns a packet to the client with a TCP segment; `None` if it would be too long for one.
    pub(super) fn segment(&self, fields: &TcpFields, payload: &[u8]) -> Option<Box<[u8]>> {
        let mut header = [self.stub.port(), self.client.port()].map(u16::to_be_bytes).concat();
        header.extend_from_slice(&fields.sequence.to_be_bytes());
        header.extend_from_slice(&fields.acknowledgement.to_be_bytes());
        let words: u8 = if fields.segment_size.is_some() { 6 } else { 5 };
        header.extend_from_slice(&[words << 4, fields.flags]);
        header.extend_from_slice(&fields.window.to_be_bytes());
        let option = fields.segment_size.map(|size| [[2, 4], size.to_be_bytes()].concat()).unwrap_or_default();
        let length = u16::try_from(header.len() + 4 + option.len() + payload.len()).ok()?;
        let sum = self.pseudo_header(ip::TCP, length)? + Sum::of(&header) + Sum::of(&option) + Sum::of(payload);
        header.extend_from_slice(&sum.checksum().to_be_bytes());
        header.extend_from_slice(&[0; 2]);
        header.extend_from_slice(&option);
        debug_assert!(header.len() >= tcp::HEADER, "a whole header");
        self.packet(ip::TCP, &header, payload)
    }

    fn pseudo_header(&self, protocol: u8, length: u16) -> Option<Sum> {
        match (self.stub.ip(), self.client.ip()) {
            (IpAddr::V4(stub), IpAddr::V4(client)) => Some(pseudo_v4(stub, client, protocol, length)),
            (IpAddr::V6(stub), IpAddr::V6(client)) => Some(pseudo_v6(stub, client, protocol, u32::from(length))),
            _ => None,
        }
    }

    fn packet(&self, protocol: u8, header: &[u8], payload: &[u8]) -> Option<Box<[u8]>> {
        let length = header.len() + payload.len();
        let ip = match (self.stub.ip(), self.client.ip()) {
            (IpAddr::V4(stub), IpAddr::V4(client)) => {
                let total = u16::try_from(V4_HEADER + length).ok()?.to_be_bytes();
                // Version and header length, no congestion marks; identification 0 and "do not fragment" (RFC 6864 section 4.1).
                let front = [[0x45, 0], total, [0, 0], [0x40, 0], [HOP_LIMIT, protocol]];
                let addresses = [stub.octets(), client.octets()];
                let sum = Sum::of(front.as_flattened()) + Sum::of(addresses.as_flattened());
                [front.as_flattened(), &sum.checksum().to_be_bytes(), addresses.as_flattened()].concat()
            }
            (IpAddr::V6(stub), IpAddr::V6(client)) => {
                let [high, low] = u16::try_from(length).ok()?.to_be_bytes();
                let front = [0x60, 0, 0, 0, high, low, protocol, HOP_LIMIT];
                [&front[..], &stub.octets(), &client.octets()].concat()
            }
            _ => return None,
        };
        Some([ip.as_slice(), header, payload].concat().into())
    }
}
