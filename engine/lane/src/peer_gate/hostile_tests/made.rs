//! Packets that remember how they were made.

use taut_testkit::Seeded;
use taut_testkit::packets::{Ip, Tcp};
use taut_wire::tcp;

/// Ports of both ends, few enough that packets meet flows and rules.
const LOCAL: [u16; 6] = [22, 53, 2_000, 32_768, 40_000, 65_535];
const REMOTE: [u16; 4] = [0, 53, 443, 50_000];
/// Identifications of packets in fragments, and of echoes.
const IDENTS: u64 = 6;
/// Bytes of the header of each protocol with ports.
const TCP: (u8, usize) = (6, 20);
const UDP: (u8, usize) = (17, 8);
const SCTP: (u8, usize) = (132, 16);
/// Numbers of ICMP by family.
pub(super) const ICMP: [u8; 2] = [1, 58];
/// Last byte of this host's address in both families, and of the peer's.
pub(super) const HERE: u8 = 2;
pub(super) const PEER: u8 = 1;

/// The upper layer of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upper {
    /// TCP, UDP or SCTP.
    Ports { proto: u8, local: u16, remote: u16, opens: bool, ends: bool },
    /// ICMP echo of the packet's family.
    Echo { ident: u16, reply: bool },
    /// An ICMP error about a packet from this host, if it quotes enough of one.
    Error { quoted: Option<Quoted> },
    /// Any other protocol, or message of ICMP.
    Other { proto: u8 },
}

/// A packet of this host that an error quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quoted {
    pub(super) remote_host: u8,
    pub(super) proto: u8,
    pub(super) local: u16,
    pub(super) remote: u16,
}

/// The part of the packet that this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Whole,
    /// The first fragment, with the bytes behind the IP header and the whole header of the upper layer.
    First {
        ident: u32,
        length: usize,
    },
    /// A packet, or its first fragment, whose upper layer is cut off within its header.
    Cut,
    Later {
        ident: u32,
        offset: usize,
    },
}

/// A packet and what it is.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) bytes: Vec<u8>,
    pub(super) six: bool,
    /// Last byte of the address of the other end: the peer's, or that of a host behind it.
    pub(super) remote_host: u8,
    pub(super) upper: Upper,
    pub(super) part: Part,
    /// IPv6 extension headers.
    extensions: Vec<u8>,
}

impl Made {
    /// Returns a packet of this host.
    pub(super) fn sent(seeded: &mut Seeded) -> Self {
        Self::drawn(seeded, true)
    }

    /// Returns a packet of the peer.
    pub(super) fn received(seeded: &mut Seeded) -> Self {
        Self::drawn(seeded, false)
    }

    /// Returns true if no IP packet can be read from it: it has more extension headers than a node accepts.
    pub(super) fn is_malformed(&self) -> bool {
        self.extensions.len() > 8
    }

    /// Returns true if there is an IPv6 fragment header, also in a whole packet.
    pub(super) fn has_fragment_header(&self) -> bool {
        self.extensions.contains(&44)
    }

    /// Returns the protocol number of the upper layer.
    pub(super) fn proto(&self) -> u8 {
        match self.upper {
            Upper::Ports { proto, .. } | Upper::Other { proto } => proto,
            Upper::Echo { .. } | Upper::Error { .. } => ICMP[usize::from(self.six)],
        }
    }

    fn drawn(seeded: &mut Seeded, sent: bool) -> Self {
        let six = seeded.index(2) == 1;
        let remote_host = if seeded.index(8) == 0 { 3 + seeded.index(6) as u8 } else { PEER };
        let ends = if sent { (HERE, remote_host) } else { (remote_host, HERE) };
        let ip = Ip { source: ends.0, destination: ends.1, ..if six { Ip::v6() } else { Ip::v4() } };
        let (upper, header, mut message) = upper(seeded, &ip, remote_host, sent);
        // An error that quotes too little ends there.
        if upper != (Upper::Error { quoted: None }) {
            message.extend(std::iter::repeat_n(0x5a, seeded.index(48)));
        }
        let ident = seeded.below_u64(IDENTS) as u32;
        let part = match seeded.index(8) {
            // Only the peer is hostile: what the host sends is whole.
            _ if sent => Part::Whole,
            0 => Part::First { ident, length: message.len() },
            1 => Part::Later { ident, offset: 8 * (1 + seeded.index(9)) },
            2 if header > 0 => {
                message.truncate(seeded.index(header));
                Part::Cut
            }
            _ => Part::Whole,
        };
        let mut made = Self { bytes: Vec::new(), six, remote_host, upper, part, extensions: Vec::new() };
        let cut_fragment = part == Part::Cut && seeded.index(2) == 0;
        if six {
            made.carry_six(seeded, &ip, message, cut_fragment, ident, sent);
        } else {
            made.carry_four(&ip, &message, cut_fragment, ident);
        }
        made
    }

    fn carry_four(&mut self, ip: &Ip, message: &[u8], cut_fragment: bool, ident: u32) {
        self.bytes = ip.carry(self.proto(), message);
        let word = match self.part {
            Part::First { .. } => 0x2000,
            Part::Later { offset, .. } => (offset / 8) as u16,
            _ if cut_fragment => 0x2000,
            _ => 0,
        };
        self.bytes[4..6].copy_from_slice(&(ident as u16).to_be_bytes());
        self.bytes[6..8].copy_from_slice(&word.to_be_bytes());
    }

    /// Puts extension headers before the upper layer: hop-by-hop, destination options, routing without further hops, AH; and last the fragment header, if there is one.
    fn carry_six(&mut self, seeded: &mut Seeded, ip: &Ip, message: Vec<u8>, cut: bool, ident: u32, sent: bool) {
        let count = if sent { 0 } else { [0, 0, 0, 1, 2, 3, 8, 9][seeded.index(8)] };
        self.extensions = (0..count).map(|_| [60, 43, 51][seeded.index(3)]).collect();
        let word = match self.part {
            Part::First { .. } => Some(1),
            Part::Later { offset, .. } => Some(offset as u16),
            _ if cut => Some(1),
            // An atomic fragment is a whole packet (RFC 6946).
            _ if seeded.index(8) == 0 && !sent => Some(0),
            _ => None,
        };
        // Each header names the next one, so the chain is built from its end.
        let (mut next, mut chain) = (self.proto(), message);
        if let Some(word) = word {
            self.extensions.push(44);
            chain = [&[next, 0][..], &word.to_be_bytes(), &ident.to_be_bytes(), &chain].concat();
            next = 44;
        }
        for header in self.extensions.iter().rev().skip(usize::from(word.is_some())) {
            // AH counts words of four bytes, the others of eight; both without the first eight bytes.
            let bytes: &[u8] =
                if *header == 51 { &[next, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1] } else { &[next, 0, 0, 0, 0, 0, 0, 0] };
            chain = [bytes, &chain].concat();
            next = *header;
        }
        self.bytes = ip.carry(next, &chain);
    }
}

/// Draws an upper layer. Returns it with the bytes of its header that a fragment has to show, and the message.
fn upper(seeded: &mut Seeded, ip: &Ip, remote_host: u8, sent: bool) -> (Upper, usize, Vec<u8>) {
    let own_icmp = ICMP[usize::from(ip.six)];
    let (local, remote) = (LOCAL[seeded.index(LOCAL.len())], REMOTE[seeded.index(REMOTE.len())]);
    let ends = if sent { (local, remote) } else { (remote, local) };
    match seeded.index(10) {
        0..3 => {
            let flags = [tcp::SYN, tcp::SYN | tcp::ACK, tcp::ACK, tcp::FIN | tcp::ACK, tcp::RST][seeded.index(5)];
            let upper = Upper::Ports {
                proto: TCP.0,
                local,
                remote,
                opens: flags == tcp::SYN,
                ends: matches!(flags, tcp::RST) || flags & tcp::FIN != 0,
            };
            (
                upper,
                TCP.1,
                header_of(&ip.tcp(&Tcp { source: ends.0, destination: ends.1, flags, ..Tcp::default() }), ip),
            )
        }
        3..5 => {
            let upper = Upper::Ports { proto: UDP.0, local, remote, opens: false, ends: false };
            (upper, UDP.1, header_of(&ip.udp(ends, &[]), ip))
        }
        5 => {
            let opens = seeded.index(2) == 0;
            let mut message = [ends.0.to_be_bytes(), ends.1.to_be_bytes()].concat();
            message.extend([0, 0, 0, 0, 0, 0, 0, 0, u8::from(opens), 0, 0, 4]);
            (Upper::Ports { proto: SCTP.0, local, remote, opens, ends: false }, SCTP.1, message)
        }
        6 => {
            let (reply, ident) = (seeded.index(2) == 0, seeded.below_u64(IDENTS) as u16);
            let kind = if ip.six { 129 - u8::from(!reply) } else { 8 * u8::from(!reply) };
            // An echo that is cut off is another message of ICMP, and needs no port.
            (Upper::Echo { ident, reply }, 0, [&[kind, 0, 0, 0][..], &ident.to_be_bytes(), &[0, 1]].concat())
        }
        7..9 => error(seeded, ip, remote_host),
        _ => {
            let proto = [47, 50, 59, 253, ICMP[usize::from(!ip.six)], own_icmp][seeded.index(6)];
            // Type 135 of ICMPv6 is neighbour solicitation; ICMP does not have it.
            (Upper::Other { proto }, 0, vec![135, 0, 0, 0, 0, 0, 0, 0])
        }
    }
}

/// Draws an ICMP error. It quotes a packet of this host, of another host, or too little of one.
fn error(seeded: &mut Seeded, ip: &Ip, remote_host: u8) -> (Upper, usize, Vec<u8>) {
    let own_icmp = ICMP[usize::from(ip.six)];
    let kind = if ip.six { 1 + seeded.index(4) as u8 } else { [3, 4, 5, 11, 12][seeded.index(5)] };
    let about = Ip { source: HERE, destination: remote_host, ..ip.clone() };
    let (inner, _, message) = upper_of_quoted(seeded, &about, remote_host);
    let mut quoted = match inner {
        Upper::Ports { proto, local, remote, .. } => Some(Quoted { remote_host, proto, local, remote }),
        Upper::Echo { ident, reply: false } => Some(Quoted { remote_host, proto: own_icmp, local: ident, remote: 0 }),
        Upper::Other { proto } if !ICMP.contains(&proto) => Some(Quoted { remote_host, proto, local: 0, remote: 0 }),
        _ => None,
    };
    let mut packet = about.carry(
        match inner {
            Upper::Ports { proto, .. } | Upper::Other { proto } => proto,
            Upper::Echo { .. } | Upper::Error { .. } => own_icmp,
        },
        &message,
    );
    match seeded.index(4) {
        0 => {
            // A packet that another host sent.
            packet[if ip.six { 23 } else { 15 }] = 77;
            quoted = None;
        }
        1 => {
            // Errors have to quote eight bytes behind the IP header (RFC 792).
            packet.truncate(if ip.six { 40 } else { 20 } + seeded.index(8));
            quoted = None;
        }
        _ => {}
    }
    (Upper::Error { quoted }, 0, [&[kind, 0, 0, 0, 0, 0, 2, 0][..], &packet].concat())
}

/// Draws the upper layer of a packet that this host may have sent; an error is never about an error.
fn upper_of_quoted(seeded: &mut Seeded, about: &Ip, remote_host: u8) -> (Upper, usize, Vec<u8>) {
    loop {
        let drawn = upper(seeded, about, remote_host, true);
        if !matches!(drawn.0, Upper::Error { .. }) {
            return drawn;
        }
    }
}

/// Returns a packet without its IP header.
fn header_of(packet: &[u8], ip: &Ip) -> Vec<u8> {
    packet[if ip.six { 40 } else { 20 }..].to_vec()
}
