//! Packets for tests, built and checked by slow and obvious code that shares nothing with the code under test.

/// Returns the Internet checksum's sum (RFC 1071), word by word.
#[must_use]
pub fn naive_sum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        let low = pair.get(1).copied().unwrap_or(0);
        sum += u32::from(u16::from_be_bytes([pair[0], low]));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).unwrap()
}

/// The virtio header that a kernel puts in front of a packet with a partial checksum. The code under test has a type of its own.
#[derive(Clone, Copy, Debug)]
pub struct VirtioHeader {
    /// `VIRTIO_NET_HDR_F_NEEDS_CSUM`.
    pub flags: u8,
    /// Kind of the superpacket (`VIRTIO_NET_HDR_GSO_*`).
    pub gso_type: u8,
    /// Bytes of all headers.
    pub hdr_len: u16,
    /// Payload bytes of each segment.
    pub gso_size: u16,
    /// Offset of the TCP or UDP header in the packet (`csum_start`).
    pub csum_start: u16,
    /// Offset of the checksum field in the TCP or UDP header (`csum_offset`).
    pub csum_offset: u16,
}

impl VirtioHeader {
    /// Returns the bytes in front of the packet, little-endian.
    #[must_use]
    pub fn encode(&self) -> [u8; 10] {
        let mut bytes = [0; 10];
        (bytes[0], bytes[1]) = (self.flags, self.gso_type);
        let words = [self.hdr_len, self.gso_size, self.csum_start, self.csum_offset];
        bytes[2..]
            .iter_mut()
            .zip(words.iter().flat_map(|word| word.to_le_bytes()))
            .for_each(|(slot, byte)| *slot = byte);
        bytes
    }
}

/// An IP header for a packet.
#[derive(Clone, Debug)]
pub struct Ip {
    /// IPv6 instead of IPv4.
    pub six: bool,
    /// Last byte of the source address.
    pub source: u8,
    /// Last byte of the destination address.
    pub destination: u8,
    /// Type of service or traffic class.
    pub tos: u8,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// IPv4 identification.
    pub id: u16,
    /// The IPv4 flag DF.
    pub dont_fragment: bool,
    /// The IPv6 flow label.
    pub flow_label: u32,
    /// IPv4 options, or one IPv6 destination options header; a multiple of 4 or 8 bytes.
    pub options: Vec<u8>,
}

impl Ip {
    /// Returns a usual IPv4 header from 10.0.0.1 to 10.0.0.2.
    #[must_use]
    pub fn v4() -> Ip {
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

    /// Returns a usual IPv6 header with the same fields.
    #[must_use]
    pub fn v6() -> Ip {
        Ip { six: true, ..Ip::v4() }
    }

    /// Returns source and destination address as bytes.
    #[must_use]
    pub fn addresses(&self) -> Vec<u8> {
        if self.six {
            let mut bytes = vec![0xfd; 32];
            bytes[15] = self.source;
            bytes[31] = self.destination;
            bytes
        } else {
            vec![10, 0, 0, self.source, 10, 0, 0, self.destination]
        }
    }

    /// Returns the sum of the pseudo header.
    #[must_use]
    pub fn pseudo(&self, protocol: u8, length: usize) -> u16 {
        let mut bytes = self.addresses();
        bytes.extend([0, protocol]);
        bytes.extend(u16::try_from(length).unwrap().to_be_bytes());
        naive_sum(&bytes)
    }

    /// Returns the packet with an upper-layer message.
    #[must_use]
    pub fn carry(&self, protocol: u8, message: &[u8]) -> Vec<u8> {
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

    /// Returns a TCP packet with a correct checksum.
    #[must_use]
    pub fn tcp(&self, tcp: &Tcp) -> Vec<u8> {
        let mut message = tcp.message();
        let sum = add(self.pseudo(6, message.len()), naive_sum(&message));
        message[16..18].copy_from_slice(&(!sum).to_be_bytes());
        self.carry(6, &message)
    }

    /// Returns a TCP superpacket with a partial checksum, as a kernel passes it to a TUN reader.
    #[must_use]
    pub fn tcp_superpacket(&self, tcp: &Tcp, gso_size: u16) -> (VirtioHeader, Vec<u8>) {
        let mut message = tcp.message();
        let partial = self.pseudo(6, message.len());
        message[16..18].copy_from_slice(&partial.to_be_bytes());
        let kind = if self.six { 4 } else { 1 };
        (self.header(kind, message.len() - tcp.payload.len(), gso_size, 16), self.carry(6, &message))
    }

    /// Returns a UDP packet with a correct checksum.
    #[must_use]
    pub fn udp(&self, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
        let mut message = udp_message(ports, payload);
        let sum = add(self.pseudo(17, message.len()), naive_sum(&message));
        let checksum = if sum == 0xffff { 0xffff } else { !sum };
        message[6..8].copy_from_slice(&checksum.to_be_bytes());
        self.carry(17, &message)
    }

    /// Returns a UDP superpacket with a partial checksum, as a kernel passes it to a TUN reader.
    #[must_use]
    pub fn udp_superpacket(&self, ports: (u16, u16), payload: &[u8], gso_size: u16) -> (VirtioHeader, Vec<u8>) {
        let mut message = udp_message(ports, payload);
        let partial = self.pseudo(17, message.len());
        message[6..8].copy_from_slice(&partial.to_be_bytes());
        (self.header(5, 8, gso_size, 6), self.carry(17, &message))
    }

    fn header(&self, gso_type: u8, transport_len: usize, gso_size: u16, csum_offset: u16) -> VirtioHeader {
        let transport = if self.six { 40 } else { 20 } + self.options.len();
        VirtioHeader {
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
pub struct Tcp {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number.
    pub acknowledgement: u32,
    /// Reserved bits and AE: the low half of the byte with the data offset.
    pub reserved: u8,
    /// FIN to CWR.
    pub flags: u8,
    /// Window.
    pub window: u16,
    /// Options; a multiple of 4 bytes.
    pub options: Vec<u8>,
    /// Payload.
    pub payload: Vec<u8>,
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

/// Returns an IPv4 TCP superpacket between two addresses, as a kernel passes it to a TUN reader: with a partial checksum.
#[must_use]
pub fn tcp_superpacket(addresses: [[u8; 4]; 2], payload: usize, gso_size: u16) -> (VirtioHeader, Vec<u8>) {
    let length = u16::try_from(40 + payload).unwrap();
    let mut packet = vec![0x45, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([0x12, 0x34, 0x40, 0, 64, 6, 0, 0]);
    packet.extend(addresses.concat());
    let checksum = !naive_sum(&packet);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    let partial = naive_sum(&[&packet[12..20], &[0, 6], &(length - 20).to_be_bytes()].concat());
    packet.extend([0x9c, 0x40, 1, 0xbb, 0, 0, 1, 0, 0, 0, 2, 0, 0x50, 0x10, 2, 0]);
    packet.extend(partial.to_be_bytes());
    packet.extend([0, 0]);
    packet.extend((0..payload).map(|at| at.to_le_bytes()[0]));
    (VirtioHeader { flags: 1, gso_type: 1, hdr_len: 40, gso_size, csum_start: 20, csum_offset: 16 }, packet)
}

/// Returns bytes of which any two neighbours differ.
#[must_use]
pub fn payload(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at * 7 + usize::from(seed) * 31 + at / 251) % 256).unwrap()).collect()
}

/// Returns the offset of the upper layer, and its protocol. The packet has no IPv6 extension header except destination options.
#[must_use]
pub fn upper_layer(packet: &[u8]) -> (usize, u8) {
    if packet[0] >> 4 == 4 {
        (usize::from(packet[0] & 15) * 4, packet[9])
    } else if packet[6] == 60 {
        (48 + usize::from(packet[41]) * 8, packet[40])
    } else {
        (40, packet[6])
    }
}

/// Returns true if all lengths and checksums of a TCP or UDP packet are correct.
#[must_use]
pub fn is_right(packet: &[u8]) -> bool {
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
