//! Packets for tests, built and checked the slow and obvious way: nothing here uses the code under test.

use crate::vnet::VnetHeader;

/// RFC 1071, word by word.
pub(crate) fn naive_sum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        let low = pair.get(1).copied().unwrap_or(0);
        sum += u32::from(u16::from_be_bytes([pair[0], low]));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).unwrap()
}

/// An IP header to be put in front of something.
#[derive(Clone, Debug)]
pub(crate) struct Ip {
    pub(crate) six: bool,
    /// Last byte of the source address.
    pub(crate) source: u8,
    /// Last byte of the destination address.
    pub(crate) destination: u8,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    pub(crate) id: u16,
    pub(crate) dont_fragment: bool,
    pub(crate) flow_label: u32,
    /// IPv4 options, or one IPv6 destination options header; a multiple of 4 or 8 bytes.
    pub(crate) options: Vec<u8>,
}

impl Ip {
    pub(crate) fn v4() -> Ip {
        Ip {
            six: false,
            source: 1,
            destination: 2,
            tos: 0,
            ttl: 64,
            id: 0xfffe,
            dont_fragment: true,
            flow_label: 0xabcde,
            options: vec![],
        }
    }

    pub(crate) fn v6() -> Ip {
        Ip { six: true, ..Ip::v4() }
    }

    pub(crate) fn addresses(&self) -> Vec<u8> {
        if self.six {
            let mut bytes = vec![0xfd; 32];
            bytes[15] = self.source;
            bytes[31] = self.destination;
            bytes
        } else {
            vec![10, 0, 0, self.source, 10, 0, 0, self.destination]
        }
    }

    /// The sum of the pseudo header.
    pub(crate) fn pseudo(&self, protocol: u8, length: usize) -> u16 {
        let mut bytes = self.addresses();
        bytes.extend([0, protocol]);
        bytes.extend(u16::try_from(length).unwrap().to_be_bytes());
        naive_sum(&bytes)
    }

    /// The whole packet around an upper-layer message.
    pub(crate) fn carry(&self, protocol: u8, message: &[u8]) -> Vec<u8> {
        let mut packet = if self.six { self.v6_header(protocol, message) } else { self.v4_header(protocol, message) };
        packet.extend(message);
        packet
    }

    fn v4_header(&self, protocol: u8, message: &[u8]) -> Vec<u8> {
        let header = 20 + self.options.len();
        let mut packet = vec![0x40 | u8::try_from(header / 4).unwrap(), self.tos];
        packet.extend(u16::try_from(header + message.len()).unwrap().to_be_bytes());
        packet.extend(self.id.to_be_bytes());
        packet.extend([if self.dont_fragment { 0x40 } else { 0 }, 0, self.ttl, protocol, 0, 0]);
        packet.extend(self.addresses());
        packet.extend(&self.options);
        let checksum = !naive_sum(&packet);
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        packet
    }

    fn v6_header(&self, protocol: u8, message: &[u8]) -> Vec<u8> {
        let mut packet = (6 << 28 | u32::from(self.tos) << 20 | self.flow_label).to_be_bytes().to_vec();
        packet.extend(u16::try_from(self.options.len() + message.len()).unwrap().to_be_bytes());
        packet.extend([if self.options.is_empty() { protocol } else { 60 }, self.ttl]);
        packet.extend(self.addresses());
        if !self.options.is_empty() {
            packet.extend([protocol, u8::try_from(self.options.len() / 8 - 1).unwrap()]);
            packet.extend(&self.options[2..]);
        }
        packet
    }

    /// A TCP packet with a right checksum.
    pub(crate) fn tcp(&self, tcp: &Tcp) -> Vec<u8> {
        let mut message = tcp.message();
        let sum = add(self.pseudo(6, message.len()), naive_sum(&message));
        message[16..18].copy_from_slice(&(!sum).to_be_bytes());
        self.carry(6, &message)
    }

    /// A TCP superpacket as the kernel hands it out, its checksum partial.
    pub(crate) fn tcp_super(&self, tcp: &Tcp, gso_size: u16) -> (VnetHeader, Vec<u8>) {
        let mut message = tcp.message();
        let partial = self.pseudo(6, message.len());
        message[16..18].copy_from_slice(&partial.to_be_bytes());
        let kind = if self.six { 4 } else { 1 };
        (self.header(kind, message.len() - tcp.payload.len(), gso_size, 16), self.carry(6, &message))
    }

    /// A UDP packet with a right checksum.
    pub(crate) fn udp(&self, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
        let mut message = udp_message(ports, payload);
        let sum = add(self.pseudo(17, message.len()), naive_sum(&message));
        let checksum = if sum == 0xffff { 0xffff } else { !sum };
        message[6..8].copy_from_slice(&checksum.to_be_bytes());
        self.carry(17, &message)
    }

    /// A train of UDP datagrams as the kernel hands it out, its checksum partial.
    pub(crate) fn udp_super(&self, ports: (u16, u16), payload: &[u8], gso_size: u16) -> (VnetHeader, Vec<u8>) {
        let mut message = udp_message(ports, payload);
        let partial = self.pseudo(17, message.len());
        message[6..8].copy_from_slice(&partial.to_be_bytes());
        (self.header(5, 8, gso_size, 6), self.carry(17, &message))
    }

    fn header(&self, gso_type: u8, transport_len: usize, gso_size: u16, csum_offset: u16) -> VnetHeader {
        let transport = if self.six { 40 } else { 20 } + self.options.len();
        VnetHeader {
            flags: 1,
            gso_type,
            hdr_len: u16::try_from(transport + transport_len).unwrap(),
            gso_size,
            csum_start: u16::try_from(transport).unwrap(),
            csum_offset,
        }
    }
}

/// A TCP header and its payload.
#[derive(Clone, Debug)]
pub(crate) struct Tcp {
    pub(crate) source: u16,
    pub(crate) destination: u16,
    pub(crate) sequence: u32,
    pub(crate) acknowledgement: u32,
    /// Reserved bits and AE: the low half of the byte with the data offset.
    pub(crate) reserved: u8,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    pub(crate) options: Vec<u8>,
    pub(crate) payload: Vec<u8>,
}

impl Default for Tcp {
    fn default() -> Tcp {
        Tcp {
            source: 40_000,
            destination: 443,
            sequence: 0xffff_f000,
            acknowledgement: 0x0102_0304,
            reserved: 0,
            flags: 0x10,
            window: 512,
            options: vec![],
            payload: vec![],
        }
    }
}

impl Tcp {
    fn message(&self) -> Vec<u8> {
        let mut message = self.source.to_be_bytes().to_vec();
        message.extend(self.destination.to_be_bytes());
        message.extend(self.sequence.to_be_bytes());
        message.extend(self.acknowledgement.to_be_bytes());
        let words = u8::try_from((20 + self.options.len()) / 4).unwrap();
        message.extend([words << 4 | self.reserved, self.flags]);
        message.extend(self.window.to_be_bytes());
        message.extend([0; 4]);
        message.extend(&self.options);
        message.extend(&self.payload);
        message
    }
}

fn udp_message((source, destination): (u16, u16), payload: &[u8]) -> Vec<u8> {
    let mut message = source.to_be_bytes().to_vec();
    message.extend(destination.to_be_bytes());
    message.extend(u16::try_from(8 + payload.len()).unwrap().to_be_bytes());
    message.extend([0; 2]);
    message.extend(payload);
    message
}

fn add(a: u16, b: u16) -> u16 {
    naive_sum(&[a.to_be_bytes(), b.to_be_bytes()].concat())
}

/// Bytes that differ from place to place.
pub(crate) fn payload(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at * 7 + usize::from(seed) * 31 + at / 251) % 256).unwrap()).collect()
}

/// Where the upper layer begins, and its protocol, of a packet without extension headers but destination options.
pub(crate) fn upper_layer(packet: &[u8]) -> (usize, u8) {
    if packet[0] >> 4 == 4 {
        (usize::from(packet[0] & 15) * 4, packet[9])
    } else if packet[6] == 60 {
        (48 + usize::from(packet[41]) * 8, packet[40])
    } else {
        (40, packet[6])
    }
}

/// Whether the lengths and checksums of a whole TCP or UDP packet are all right.
pub(crate) fn is_right(packet: &[u8]) -> bool {
    let (transport, protocol) = upper_layer(packet);
    let four = packet[0] >> 4 == 4;
    let length_field = if four { &packet[2..4] } else { &packet[4..6] };
    let length = usize::from(u16::from_be_bytes([length_field[0], length_field[1]]));
    if length != packet.len() - if four { 0 } else { 40 } || (four && naive_sum(&packet[..transport]) != 0xffff) {
        return false;
    }
    let message = &packet[transport..];
    if protocol == 17 {
        let udp_length = usize::from(u16::from_be_bytes([message[4], message[5]]));
        if udp_length != message.len() || message[6..8] == [0, 0] {
            return false;
        }
    }
    let mut whole = if four { packet[12..20].to_vec() } else { packet[8..40].to_vec() };
    whole.extend([0, protocol]);
    whole.extend(u16::try_from(message.len()).unwrap().to_be_bytes());
    whole.extend(message);
    naive_sum(&whole) == 0xffff
}
