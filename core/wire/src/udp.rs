//! A checked view of a UDP datagram (RFC 768).

use core::fmt;

use crate::bytes::be16;
use crate::checksum::{self, Sum};

/// Length of the header, 8 bytes.
pub const HEADER: usize = 8;

/// Offsets of the fields of a header.
pub(crate) mod field {
    pub(crate) const LENGTH: usize = 4;
    pub(crate) const CHECKSUM: usize = 6;
}

/// Offset of the checksum in the header, 6: `csum_offset` of a virtio header.
pub const CHECKSUM_OFFSET: u16 = 6;

/// The bytes are not a UDP datagram: the header is truncated, or its length exceeds the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedUdp;

impl fmt::Display for MalformedUdp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the UDP header is cut off or its length is wrong")
    }
}

impl core::error::Error for MalformedUdp {}

/// A datagram with a checked length.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    bytes: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Reads the payload of an IP packet. Bytes beyond the UDP length are ignored.
    ///
    /// # Errors
    /// [`MalformedUdp`] if the header or its length does not fit.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Datagram<'a>, MalformedUdp> {
        let length = usize::from(be16(bytes, field::LENGTH));
        if length < HEADER {
            return Err(MalformedUdp);
        }
        Ok(Datagram { bytes: bytes.get(..length).ok_or(MalformedUdp)? })
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

    /// Returns the length of header and data.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the data.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(HEADER..).unwrap_or_default()
    }

    /// Returns true if the datagram has no checksum.
    #[must_use]
    pub fn without_checksum(&self) -> bool {
        be16(self.bytes, field::CHECKSUM) == 0
    }

    /// Returns true if the datagram has a correct checksum, given the sum of the pseudo header.
    #[must_use]
    #[inline]
    pub fn checksum_ok(&self, pseudo_header: Sum) -> bool {
        !self.without_checksum() && pseudo_header + Sum::of(self.bytes) == checksum::VALID
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn padding_behind_the_length_is_cut_off() {
        let datagram = Datagram::parse(&[0, 53, 1, 0, 0, 10, 0, 0, 7, 8, 9, 9]).unwrap();
        assert_eq!((datagram.source(), datagram.destination(), datagram.length()), (53, 256, 10));
        assert_eq!(datagram.payload(), [7, 8]);
        assert!(datagram.without_checksum() && !datagram.checksum_ok(checksum::VALID));
    }

    #[test]
    fn length_is_bounded_on_both_sides() {
        for (length, good) in [(0, false), (7, false), (8, true), (9, true), (10, false)] {
            let bytes = [0, 0, 0, 0, 0, length, 0, 0, 0];
            assert_eq!(Datagram::parse(&bytes).is_ok(), good, "length {length}");
        }
    }

    proptest! {
        #[test]
        fn takes_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(datagram) = Datagram::parse(&bytes) {
                prop_assert!(datagram.length() <= bytes.len());
                prop_assert_eq!(datagram.payload().len() + HEADER, datagram.length());
                let _ = datagram.checksum_ok(Sum::ZERO);
            }
        }
    }
}
