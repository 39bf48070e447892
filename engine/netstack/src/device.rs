//! The stack's network device: the socket to the lane of the daemon, which carries superpackets of TCP in both directions.
//!
//! Each message has the header of a TUN device in front. A segment that is longer than the peer's MSS leaves as one packet, and the lane cuts and seals it; runs of a flow arrive
//! as one. That halves the cost of a byte and more, because most of it is per packet.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroUsize;

use smoltcp::phy::{self, Checksum, DeviceCapabilities, Medium, PacketMeta};
use smoltcp::time::Instant;
use taut_tun::Tun;
use taut_wire::ip::{self, Packet, Version};
use taut_wire::vnet::{self, GSO_NONE, GSO_TCPV4, GSO_TCPV6, NEEDS_CSUM, VnetHeader};
use taut_wire::{checksum, tcp};

/// Packets that wait because the socket is full, 64: the stack sends at most one packet for each socket and turn, and asks for room before.
const MOST_WAITING: usize = 64;
/// Longest packet, as IPv4 can say it.
const MAX_PACKET: usize = 65_535;
/// Longest segment that leaves as one packet, 60 KiB: room for headers and options up to [`MAX_PACKET`].
const MAX_SEGMENT: usize = 60 * 1_024;

/// The device: reads are the loop's, which looks at each packet before the stack gets it.
pub(crate) struct Device {
    tun: Tun,
    mtu: usize,
    buffer: Box<[u8]>,
    /// Where in `buffer` the packet is that the stack takes next.
    arrived: Option<std::ops::Range<usize>>,
    out: Out,
}

/// The way out.
#[derive(Default)]
struct Out {
    /// Messages that found the socket full.
    waiting: VecDeque<Vec<u8>>,
    /// The message that is being written.
    message: Vec<u8>,
}

impl Device {
    pub(crate) fn new(tun: Tun, mtu: u16) -> Self {
        let buffer = vec![0; vnet::LEN + MAX_PACKET].into_boxed_slice();
        Self { tun, mtu: usize::from(mtu), buffer, arrived: None, out: Out::default() }
    }

    /// Reads a packet of the lane, which the stack takes next unless it is dropped. `WouldBlock` if none waits, `UnexpectedEof` if the daemon has ended.
    pub(crate) fn read(&mut self) -> io::Result<Option<&[u8]>> {
        self.arrived = None;
        let length = self.tun.read(&mut self.buffer)?;
        let Some((header, packet)) = VnetHeader::parse(&self.buffer[..length]) else { return Ok(None) };
        if !is_sound(header, packet) {
            return Ok(None);
        }
        self.arrived = Some(vnet::LEN..length);
        Ok(Some(packet))
    }

    /// Returns true if no answer to a further packet finds room.
    pub(crate) fn is_crowded(&mut self) -> bool {
        self.flush();
        self.out.waiting.len() >= MOST_WAITING / 2
    }

    /// Has the stack not take the packet that was read last.
    pub(crate) fn drop_packet(&mut self) {
        self.arrived = None;
    }

    /// Writes the packets that wait, as far as the socket takes them. Returns true if some still wait.
    pub(crate) fn flush(&mut self) -> bool {
        while let Some(message) = self.out.waiting.front() {
            match self.tun.write(message) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                // The end of the daemon is noticed by reading.
                _ => drop(self.out.waiting.pop_front()),
            }
        }
        false
    }

    pub(crate) fn tun(&self) -> &Tun {
        &self.tun
    }
}

/// Returns false for a packet of TCP whose checksum is wrong. A partial one was never on a wire, and a superpacket's were checked before it was made. The stack checks everything
/// but TCP and UDP itself.
fn is_sound(header: VnetHeader, packet: &[u8]) -> bool {
    let Ok(packet) = Packet::parse(packet) else { return false };
    if header.needs_checksum() || header.gso_type != GSO_NONE || packet.protocol() != ip::TCP || packet.is_fragment() {
        return true;
    }
    let length = u16::try_from(packet.payload().len()).unwrap_or(u16::MAX);
    packet.pseudo_header(length) + checksum::Sum::of(packet.payload()) == checksum::VALID
}

/// A packet that arrived.
pub(crate) struct Arrived<'a>(&'a [u8]);

impl phy::RxToken for Arrived<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(self.0)
    }
}

/// Room for one packet.
pub(crate) struct Room<'a> {
    tun: &'a Tun,
    out: &'a mut Out,
    segment: Option<u16>,
}

impl phy::TxToken for Room<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        let message = &mut self.out.message;
        message.clear();
        message.resize(vnet::LEN + length, 0);
        let result = write(&mut message[vnet::LEN..]);
        let header = complete(&mut message[vnet::LEN..], self.segment);
        message[..vnet::LEN].copy_from_slice(&header.encode());
        let is_full = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
        if !self.out.waiting.is_empty() || self.tun.write(message).as_ref().is_err_and(is_full) {
            self.out.waiting.push_back(std::mem::take(message));
        }
        result
    }

    fn set_meta(&mut self, meta: PacketMeta) {
        self.segment = meta.segmentation_offload_size.map(std::num::NonZeroU16::get);
    }
}

/// Writes the partial checksum of a packet of TCP, which the stack left out, and returns its header. `segment` is the size of the segments that it is cut into.
fn complete(packet: &mut [u8], segment: Option<u16>) -> VnetHeader {
    let Ok(parsed) = Packet::parse(packet) else { return VnetHeader::NONE };
    if parsed.protocol() != ip::TCP {
        return VnetHeader::NONE;
    }
    let (start, version) = (parsed.header_len(), parsed.version());
    let headers = tcp::Segment::parse(parsed.payload()).map_or(start, |segment| start + segment.header_len());
    let partial = parsed.pseudo_header(u16::try_from(parsed.payload().len()).unwrap_or(u16::MAX)).folded();
    let field = start + usize::from(tcp::CHECKSUM_OFFSET);
    if let Some(field) = packet.get_mut(field..field + 2) {
        field.copy_from_slice(&partial.to_be_bytes());
    }
    let kind = match version {
        _ if segment.is_none() => GSO_NONE,
        Version::V4 => GSO_TCPV4,
        Version::V6 => GSO_TCPV6,
    };
    VnetHeader {
        flags: NEEDS_CSUM,
        gso_type: kind,
        hdr_len: u16::try_from(headers).unwrap_or_default(),
        gso_size: segment.unwrap_or_default(),
        csum_start: u16::try_from(start).unwrap_or_default(),
        csum_offset: tcp::CHECKSUM_OFFSET,
    }
}

impl phy::Device for Device {
    type RxToken<'a> = Arrived<'a>;
    type TxToken<'a> = Room<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Arrived<'_>, Room<'_>)> {
        // An answer may be needed for each packet, so without room none is taken: its sender sends again.
        let range = self.arrived.take().filter(|_| self.out.waiting.len() < MOST_WAITING)?;
        let room = Room { tun: &self.tun, out: &mut self.out, segment: None };
        Some((Arrived(&self.buffer[range]), room))
    }

    fn transmit(&mut self, _: Instant) -> Option<Room<'_>> {
        let has_room = self.out.waiting.len() < MOST_WAITING;
        has_room.then_some(Room { tun: &self.tun, out: &mut self.out, segment: None })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities.checksum.tcp = Checksum::None;
        // Lanes may pass partial checksums of UDP on.
        capabilities.checksum.udp = Checksum::Tx;
        capabilities.segmentation.tcpv4 = NonZeroUsize::new(MAX_SEGMENT);
        // Not IPv6: this version of the stack drops its own superpackets there.
        capabilities
    }
}
