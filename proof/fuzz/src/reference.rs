//! Slow and obvious implementations that the fast code is compared with. Of the code under test they use only the view of an IP packet, which has its
//! own target.

use taut_wire::ip::Packet;

/// RFC 1071, word by word.
pub(crate) fn sum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(be16(pair, 0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).unwrap_or(u16::MAX)
}

/// Returns the 16 bits at `at`; zeros behind the end.
pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
    u16::from_be_bytes([byte(at), byte(at + 1)])
}

/// Returns true if the length field of a packet matches its bytes and the IPv4 header checksum is correct.
pub(crate) fn ip_is_right(packet: &[u8]) -> bool {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => {
            let header = usize::from(packet[0] & 15) * 4;
            usize::from(be16(packet, 2)) == packet.len() && packet.get(..header).is_some_and(|head| sum(head) == 0xffff)
        }
        Some(6) => usize::from(be16(packet, 4)) + 40 == packet.len(),
        _ => false,
    }
}

/// Returns true if the checksum of the TCP or UDP message at `transport` is correct with the addresses of the fixed header.
pub(crate) fn transport_is_right(packet: &[u8], transport: usize, protocol: u8) -> bool {
    let Some(message) = packet.get(transport..) else { return false };
    let addresses = if packet.first().is_some_and(|byte| byte >> 4 == 4) { 12..20 } else { 8..40 };
    let Some(addresses) = packet.get(addresses) else { return false };
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes();
    let pseudo = [addresses, &[0, protocol], &length, message].concat();
    if protocol == 17 && (usize::from(be16(message, 4)) != message.len() || be16(message, 6) == 0) {
        return false;
    }
    sum(&pseudo) == 0xffff
}

/// Returns the sum of a packet's pseudo header.
pub(crate) fn pseudo(packet: &[u8], ip: &Packet<'_>) -> u16 {
    let addresses = if packet[0] >> 4 == 4 { &packet[12..20] } else { &packet[8..40] };
    let length = u32::try_from(ip.payload().len()).unwrap_or(u32::MAX).to_be_bytes();
    sum(&[addresses, &[0, ip.protocol()], &length].concat())
}

/// Returns true if a packet is plain TCP or UDP and its checksum field holds the sum of its pseudo header.
pub(crate) fn is_partial(packet: &[u8], ip: &Packet<'_>) -> bool {
    let message = ip.payload();
    let (whole, field) = match ip.protocol() {
        6 => ((20..=message.len()).contains(&(usize::from(message.get(12).unwrap_or(&0) >> 4) * 4)), 16),
        17 => (message.len() >= 8 && usize::from(be16(message, 4)) == message.len(), 6),
        _ => return false,
    };
    whole && !ip.is_fragment() && !ip.has_options() && be16(message, field) == pseudo(packet, ip)
}
