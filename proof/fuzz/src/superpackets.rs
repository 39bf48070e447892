//! Superpackets: splitting and merging, each of which undoes the other.

use std::collections::BTreeMap;

use taut_wire::ip::{self, Packet};
use taut_wire::merge::{MAX_BYTES, MAX_RUN, Merger, Offloads, Run};
use taut_wire::partial_checksum::{self, PartialChecksum};
use taut_wire::split::{MAX_SEGMENTS, Split, Unsplittable};
use taut_wire::vnet::{self, VnetHeader};

use crate::input::Input;
use crate::reference;

/// A virtio header and a packet: the segments have correct lengths and checksums, and no byte of payload is lost or doubled.
pub(crate) fn split(data: &[u8]) {
    let Some((header, packet)) = VnetHeader::parse(data) else {
        return assert!(data.len() < vnet::LEN);
    };
    assert_eq!(VnetHeader::decode(&header.encode()), header);
    let Ok(segments) = cut(header, packet) else { return };
    marked(header, packet, &segments);
    [120, 600, 1_300].into_iter().for_each(|limit| shorter(header, packet, &segments, limit));
    let whole = Packet::parse(packet).map(|packet| packet.bytes()).unwrap_or_default();
    if header.gso_type == vnet::GSO_NONE {
        let [single] = segments.as_slice() else { unreachable!("a packet without GSO has one segment") };
        let differing = single.iter().zip(whole).filter(|(a, b)| a != b).count();
        assert!(single.len() == whole.len() && differing <= if header.needs_checksum() { 2 } else { 0 });
        return;
    }
    let headers = Packet::parse(packet).map_or(0, |ip| {
        ip.header_len()
            + match ip.protocol() {
                ip::TCP => usize::from(ip.payload()[12] >> 4) * 4,
                _ => 8,
            }
    });
    let mut payload = Vec::new();
    for (number, segment) in segments.iter().enumerate() {
        check_headers(whole, segment, number, payload.len(), number + 1 == segments.len());
        assert!(reference::ip_is_right(segment));
        let Ok(ip) = Packet::parse(segment) else { unreachable!("a segment is a packet") };
        assert!(reference::transport_is_right(segment, ip.header_len(), ip.protocol()));
        payload.extend_from_slice(&segment[headers..]);
    }
    assert_eq!(payload, whole[headers..]);
}

/// Checks the segments for a peer that accepts partial checksums: they differ from the others only in the flag and in the checksum that the peer completes.
fn marked(header: VnetHeader, packet: &[u8], complete: &[Vec<u8>]) {
    let Ok(mut split) = Split::new(header, packet) else { unreachable!("the same packet was split before") };
    split.allow_partial_checksums();
    for complete in complete {
        let mut segment = vec![0xee; complete.len()];
        assert_eq!(split.write_next(&mut segment), Some(complete.len()));
        if partial_checksum::clear_flag(&mut segment) {
            assert!(header.needs_checksum(), "a flag without a partial checksum from the kernel");
            let Ok(ip) = Packet::parse(&segment) else { unreachable!("a segment is a packet") };
            assert!(reference::is_partial(&segment, &ip));
            let Some(partial) = PartialChecksum::of(&ip) else { unreachable!("the set flag is valid") };
            partial.complete(&mut segment);
        }
        assert_eq!(segment, *complete);
    }
    assert_eq!(split.next_len(), None);
}

/// Checks the segments for a path that carries `limit` bytes: they are the same stream, in correct packets. What is not TCP stays as it is.
fn shorter(header: VnetHeader, packet: &[u8], complete: &[Vec<u8>], limit: usize) {
    let Ok(mut split) = Split::new(header, packet) else { unreachable!("the same packet was split before") };
    let before = (split.segments(), split.largest());
    let fits = split.largest() <= limit;
    let done = split.limit_to(limit);
    if fits || !done {
        return assert!(done == fits && (split.segments(), split.largest()) == before);
    }
    let mut stream = Vec::new();
    while let Some(length) = split.next_len() {
        let mut segment = vec![0xee; length];
        assert!(length <= limit && split.write_next(&mut segment) == Some(length));
        let Ok(ip) = Packet::parse(&segment) else { unreachable!("a segment is a packet") };
        assert!(ip.protocol() == ip::TCP && reference::ip_is_right(&segment));
        assert!(reference::transport_is_right(&segment, ip.header_len(), ip::TCP));
        stream.extend_from_slice(tcp_data(&segment));
    }
    assert_eq!(stream, complete.iter().flat_map(|segment| tcp_data(segment)).copied().collect::<Vec<_>>());
}

fn tcp_data(segment: &[u8]) -> &[u8] {
    let Ok(ip) = Packet::parse(segment) else { return &[] };
    let headers = ip.header_len() + ip.payload().get(12).map_or(0, |offset| usize::from(offset >> 4) * 4);
    segment.get(headers..).unwrap_or_default()
}

/// Checks how a superpacket's headers differ in its segment `number`, whose payload begins at `offset`: sequence number and ID count on, only the last
/// segment has FIN and PSH, only the first has CWR.
fn check_headers(whole: &[u8], segment: &[u8], number: usize, offset: usize, last: bool) {
    let Ok(ip) = Packet::parse(whole) else { unreachable!("a superpacket that was split is a packet") };
    let at = ip.header_len();
    let number = u16::try_from(number).unwrap_or(u16::MAX);
    if ip.source().is_ipv4() {
        assert_eq!(reference::be16(segment, 4), reference::be16(whole, 4).wrapping_add(number));
    }
    if ip.protocol() != ip::TCP {
        return;
    }
    let be32 =
        |bytes: &[u8]| u32::from(reference::be16(bytes, at + 4)) << 16 | u32::from(reference::be16(bytes, at + 6));
    let offset = u32::try_from(offset).unwrap_or(u32::MAX);
    assert_eq!(be32(segment), be32(whole).wrapping_add(offset));
    let cleared = if last { 0 } else { 0x09 } | if number == 0 { 0 } else { 0x80 };
    assert_eq!(segment[at + 13], whole[at + 13] & !cleared, "flags of segment {number}");
}

/// Splits a superpacket into all its segments.
pub(crate) fn cut(header: VnetHeader, packet: &[u8]) -> Result<Vec<Vec<u8>>, Unsplittable> {
    let mut split = Split::new(header, packet)?;
    let (count, largest) = (split.segments(), split.largest());
    assert!((1..=MAX_SEGMENTS).contains(&count));
    let mut segments = Vec::new();
    while let Some(length) = split.next_len() {
        assert!(length <= largest);
        let mut room = vec![0xee; length + 1];
        assert_eq!(split.write_next(&mut room[..length - 1]), None, "a buffer that is too short changes nothing");
        assert_eq!(split.write_next(&mut room), Some(length));
        assert_eq!(room.pop(), Some(0xee));
        segments.push(room);
    }
    assert_eq!((segments.len(), split.remaining(), split.write_next(&mut [0; 64])), (count, 0, None));
    Ok(segments)
}

/// Maximum number of packets to merge, 80: more than a full run of 64 and one packet in each of the 8 slots of the merger.
const MAX_PACKETS: usize = 80;

/// A train of packets: the merged packets, split again, are the original packets, in order within each flow.
///
/// The script: the offloads, then for each packet its options (bit 0: correct its checksums; bit 1: instead of the piece, the packet that would follow the
/// previous packet in its flow; bit 2: another session; bit 3: the batch ends here; bit 4: a partial checksum, if possible) and the piece.
pub(crate) fn merge(data: &[u8]) {
    let mut input = Input::new(data);
    let offloads = offloads(input.byte());
    let mut buffer = Vec::new();
    let mut places = Vec::new();
    let mut last = Vec::new();
    while !input.is_empty() && places.len() < MAX_PACKETS {
        let how = input.byte();
        let mut packet = if how & 2 == 0 { input.piece().to_vec() } else { following(&last) };
        if how & 3 != 0 {
            repair(&mut packet);
        }
        // Padding may leave bytes behind the packet's own length.
        let start = buffer.len();
        let marks = how & 16 != 0 && make_partial(&mut packet);
        buffer.extend_from_slice(&packet);
        buffer.extend_from_slice(&[0xee; 3]);
        places.push((start..buffer.len(), u32::from(how & 4 != 0), how & 8 != 0, marks));
        last = packet;
    }
    let original = buffer.clone();
    let (mut pushed, mut emitted) = (Vec::new(), Vec::new());
    let mut merger = Merger::new(offloads);
    for (place, session, end, marks) in places {
        let packet = Packet::parse(&original[place.clone()]).map(|packet| packet.bytes().to_vec());
        let before = emitted.len();
        let partial = Packet::parse(&original[place.clone()])
            .ok()
            .filter(|_| marks)
            .and_then(|packet| PartialChecksum::of(&packet));
        assert_eq!(partial.is_some(), marks);
        let taken = merger.push(&mut buffer, place, session, partial, |run| emitted.extend(apart(run)));
        assert_eq!(taken.is_ok(), packet.is_ok());
        assert!(taken.is_ok() || emitted.len() == before);
        pushed.extend(packet);
        if end {
            merger.flush(&mut buffer, |run| emitted.extend(apart(run)));
            assert!(merger.is_empty());
        }
    }
    merger.flush(&mut buffer, |run| emitted.extend(apart(run)));
    assert!(merger.is_empty());
    assert_eq!(by_flow(&pushed), by_flow(&emitted));
}

fn offloads(bits: u8) -> Offloads {
    let on = |bit: u8| bits & (1 << bit) == 0;
    Offloads { tcp4: on(0), tcp6: on(1), ecn: on(2), udp4: on(3), udp6: on(4) }
}

/// Returns the packets of a run, split as the kernel would split it.
pub(crate) fn apart(run: Run<'_>) -> Vec<Vec<u8>> {
    let bytes = run.slices().collect::<Vec<_>>().concat();
    assert!(bytes.len() == run.bytes() && bytes.len() <= MAX_BYTES && (1..=MAX_RUN).contains(&run.packets()));
    if run.packets() == 1 {
        if run.header() == VnetHeader::NONE {
            return vec![bytes];
        }
        let Ok(single) = cut(run.header(), &bytes) else { unreachable!("the header has a wrong checksum place") };
        let Ok(ip) = Packet::parse(&single[0]) else { unreachable!("the completed packet does not parse") };
        assert!(reference::transport_is_right(&single[0], ip.header_len(), ip.protocol()));
        return single;
    }
    let segments = match cut(run.header(), &bytes) {
        Ok(segments) => segments,
        Err(why) => unreachable!("a merged run cannot be split: {why}"),
    };
    assert_eq!(segments.len(), run.packets());
    for segment in &segments {
        let Ok(ip) = Packet::parse(segment) else { unreachable!("a segment is a packet") };
        assert!(reference::ip_is_right(segment));
        assert!(reference::transport_is_right(segment, ip.header_len(), ip.protocol()));
    }
    segments
}

/// Returns packets in order by flow, without the fields that merging may change: PSH, a meaningless ID, and the checksums over them.
pub(crate) fn by_flow(packets: &[Vec<u8>]) -> BTreeMap<Vec<u8>, Vec<Vec<u8>>> {
    let mut flows: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for packet in packets {
        let Ok(ip) = Packet::parse(packet) else { continue };
        let addresses = if ip.source().is_ipv4() { &packet[12..20] } else { &packet[8..40] };
        let ports = if ip.is_fragment() { &[] } else { ip.payload().get(..4).unwrap_or_default() };
        let flow = [addresses, &[ip.protocol()], ports].concat();
        flows.entry(flow).or_default().push(essence(&ip));
    }
    flows
}

fn essence(ip: &Packet<'_>) -> Vec<u8> {
    let mut bytes = ip.bytes().to_vec();
    if ip.is_fragment() || ip.has_options() {
        return bytes;
    }
    let transport = ip.header_len();
    if ip.source().is_ipv4() {
        bytes[10..12].fill(0);
        if bytes[6] & 0x40 != 0 {
            bytes[4..6].fill(0);
        }
    }
    let checksum = match ip.protocol() {
        ip::TCP if ip.payload().len() >= 20 => {
            bytes[transport + 13] &= !0x08;
            transport + 16
        }
        ip::UDP if ip.payload().len() >= 8 => transport + 6,
        _ => return bytes,
    };
    bytes[checksum..checksum + 2].fill(0);
    bytes
}

/// Returns the packet that a sender would send next: with the next sequence number and the next ID.
fn following(packet: &[u8]) -> Vec<u8> {
    let mut next = packet.to_vec();
    let Ok(ip) = Packet::parse(packet) else { return next };
    if ip.source().is_ipv4() {
        let id = reference::be16(&next, 4).wrapping_add(1);
        next[4..6].copy_from_slice(&id.to_be_bytes());
    }
    let at = ip.header_len();
    if ip.protocol() == ip::TCP && ip.payload().len() >= 20 {
        let header = usize::from(ip.payload()[12] >> 4) * 4;
        let payload = u32::try_from(ip.payload().len().saturating_sub(header)).unwrap_or(0);
        let old = [next[at + 4], next[at + 5], next[at + 6], next[at + 7]];
        next[at + 4..at + 8].copy_from_slice(&u32::from_be_bytes(old).wrapping_add(payload).to_be_bytes());
    }
    next
}

/// Writes the sum of the pseudo header into the checksum field if the packet is plain TCP or UDP.
pub(crate) fn make_partial(packet: &mut [u8]) -> bool {
    let Ok(ip) = Packet::parse(packet) else { return false };
    let field = ip.header_len() + if ip.protocol() == ip::TCP { 16 } else { 6 };
    if ip.bytes().len() < field + 2 {
        return false;
    }
    let mut partial = ip.bytes().to_vec();
    let sum = reference::pseudo(&partial, &ip);
    partial[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    let plain = Packet::parse(&partial).is_ok_and(|ip| reference::is_partial(&partial, &ip));
    if plain {
        packet[..partial.len()].copy_from_slice(&partial);
    }
    plain
}

/// Corrects the checksums of a packet, so that mutations pass them.
pub(crate) fn repair(packet: &mut [u8]) {
    let Ok(ip) = Packet::parse(packet) else { return };
    let (transport, protocol, total, four) = (ip.header_len(), ip.protocol(), ip.bytes().len(), ip.source().is_ipv4());
    let field = match protocol {
        ip::TCP => transport + 16,
        ip::UDP => transport + 6,
        _ => usize::MAX,
    };
    if four {
        packet[10..12].fill(0);
        let checksum = !reference::sum(&packet[..transport]);
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
    if field.saturating_add(2) > total {
        return;
    }
    packet[field..field + 2].fill(0);
    let addresses = if four { &packet[12..20] } else { &packet[8..40] };
    let length = u32::try_from(total - transport).unwrap_or(0).to_be_bytes();
    let sum = reference::sum(&[addresses, &[0, protocol], &length, &packet[transport..total]].concat());
    let checksum = if sum == 0xffff && protocol == ip::UDP { 0xffff } else { !sum };
    packet[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
}
