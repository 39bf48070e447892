//! A checked view of a TCP segment (RFC 9293, 3.1).

use core::fmt;

use crate::bytes::{be16, be32, u8_at};
use crate::checksum::{self, Sum};

/// Length of a header without options, 20 bytes.
pub const HEADER: usize = 20;
/// Length of the longest header, 60 bytes.
pub const MAX_HEADER: usize = 60;

/// No more data from the sender.
pub const FIN: u8 = 0x01;
/// Synchronise sequence numbers.
pub const SYN: u8 = 0x02;
/// Reset the connection.
pub const RST: u8 = 0x04;
/// Push.
pub const PSH: u8 = 0x08;
/// The acknowledgement number is valid.
pub const ACK: u8 = 0x10;
/// The urgent pointer is valid.
pub const URG: u8 = 0x20;
/// ECN echo (RFC 3168).
pub const ECE: u8 = 0x40;
/// Congestion window reduced (RFC 3168).
pub const CWR: u8 = 0x80;

/// Offsets of the fields of a header.
pub(crate) mod field {
    pub(crate) const SEQUENCE: usize = 4;
    pub(crate) const ACKNOWLEDGEMENT: usize = 8;
    /// Data offset, reserved bits and AE in the first byte, the flags in the second.
    pub(crate) const OFFSET: usize = 12;
    pub(crate) const FLAGS: usize = 13;
    pub(crate) const WINDOW: usize = 14;
    pub(crate) const CHECKSUM: usize = 16;
    pub(crate) const URGENT: usize = 18;
}

/// Offset of the checksum in the header, 16: `csum_offset` of a virtio header.
pub const CHECKSUM_OFFSET: u16 = 16;

/// The bytes are not a TCP segment: the header is truncated, or its length is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedTcp;

impl fmt::Display for MalformedTcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the TCP header is cut off or its length is wrong")
    }
}

impl core::error::Error for MalformedTcp {}

/// A segment with a checked header length.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    bytes: &'a [u8],
    header: usize,
}

impl<'a> Segment<'a> {
    /// Reads the payload of an IP packet.
    ///
    /// # Errors
    /// [`MalformedTcp`] if the header does not fit.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Segment<'a>, MalformedTcp> {
        let header = usize::from(u8_at(bytes, field::OFFSET) >> 4) * 4;
        if header < HEADER || bytes.len() < header {
            return Err(MalformedTcp);
        }
        Ok(Segment { bytes, header })
    }

    /// Returns the source port.
    #[must_use]
    pub fn source(&self) -> u16 {
        be16(self.bytes, 0)
    }

    /// Returns the destination port.
    #[must_use]
    pub fn destination(&self) -> u16 {
        be16(self.bytes, 2)
    }

    /// Returns the sequence number of the first payload byte.
    #[must_use]
    pub fn sequence(&self) -> u32 {
        be32(self.bytes, field::SEQUENCE)
    }

    /// Returns the acknowledgement number.
    #[must_use]
    pub fn acknowledgement(&self) -> u32 {
        be32(self.bytes, field::ACKNOWLEDGEMENT)
    }

    /// Returns the flags, [`FIN`] to [`CWR`].
    #[must_use]
    pub fn flags(&self) -> u8 {
        u8_at(self.bytes, field::FLAGS)
    }

    /// Returns the receive window, unscaled.
    #[must_use]
    pub fn window(&self) -> u16 {
        be16(self.bytes, field::WINDOW)
    }

    /// Returns the length of the header with its options.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        self.header
    }

    /// Returns the options.
    #[must_use]
    pub fn options(&self) -> &'a [u8] {
        self.bytes.get(HEADER..self.header).unwrap_or_default()
    }

    /// Returns the data.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(self.header..).unwrap_or_default()
    }

    /// Returns true if the checksum is correct, given the sum of the pseudo header.
    #[must_use]
    #[inline]
    pub fn checksum_ok(&self, pseudo_header: Sum) -> bool {
        pseudo_header + Sum::of(self.bytes) == checksum::VALID
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{Ip, Tcp};
    use proptest::prelude::*;

    #[test]
    fn fields() {
        let packet = Ip::v4().tcp(&Tcp { options: vec![1; 12], payload: vec![7; 5], ..Tcp::default() });
        let segment = Segment::parse(&packet[20..]).unwrap();
        let tcp = Tcp::default();
        assert_eq!((segment.source(), segment.destination()), (tcp.source, tcp.destination));
        assert_eq!((segment.sequence(), segment.acknowledgement()), (tcp.sequence, tcp.acknowledgement));
        assert_eq!((segment.flags(), segment.window()), (tcp.flags, tcp.window));
        assert_eq!((segment.header_len(), segment.options(), segment.payload()), (32, &[1; 12][..], &[7; 5][..]));
    }

    #[test]
    fn header_length_is_bounded_on_both_sides() {
        let mut bytes = [0_u8; 24];
        for (words, good) in [(0, false), (4, false), (5, true), (6, true), (7, false), (15, false)] {
            bytes[12] = words << 4;
            assert_eq!(Segment::parse(&bytes).is_ok(), good, "{words} words");
        }
        assert_eq!(Segment::parse(&bytes[..12]).unwrap_err(), MalformedTcp);
    }

    proptest! {
        #[test]
        fn takes_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..90)) {
            if let Ok(segment) = Segment::parse(&bytes) {
                prop_assert_eq!(segment.header_len() + segment.payload().len(), bytes.len());
                prop_assert_eq!(segment.options().len() + HEADER, segment.header_len());
                let _ = segment.checksum_ok(Sum::ZERO);
            }
        }
    }
}
