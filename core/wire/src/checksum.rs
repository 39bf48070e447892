//! The Internet checksum: a ones' complement sum of 16-bit words (RFC 1071).

use core::net::{Ipv4Addr, Ipv6Addr};
use core::ops::Add;

/// The sum of a valid header or message, including its checksum and its pseudo header, if it has one.
pub const VALID: Sum = Sum(0xffff);

/// A ones' complement sum, folded to 16 bits. Additions never overflow, because a carry is added at the low end.
///
/// Sums of pieces add up to the sum of the whole if every piece but the last has an even length.
/// Bytes that are not all zero sum to 1 ..= 0xffff, so each sum has one representation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u16);

impl Sum {
    /// The sum of no bytes.
    pub const ZERO: Sum = Sum(0);

    /// Returns the sum of `bytes` as big-endian words. An odd last byte counts as the high half of a word (RFC 1071, 4.1).
    #[must_use]
    pub fn of(bytes: &[u8]) -> Sum {
        let (words, rest) = bytes.as_chunks::<4>();
        // 64-bit sums of 32-bit words cannot overflow below 16 GiB. The compiler vectorises this plain loop, but not loops with several sums (34 against 130
        // ns for 1,400 bytes).
        let sum = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum::<u64>();
        let mut last = [0; 4];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        Sum::of_native(sum + u64::from(u32::from_ne_bytes(last)))
    }

    /// Copies `from` into `to`, up to the shorter length, and returns the sum of the copied bytes.
    #[must_use]
    pub fn copying(from: &[u8], to: &mut [u8]) -> Sum {
        let len = from.len().min(to.len());
        let (Some(from), Some(to)) = (from.get(..len), to.get_mut(..len)) else {
            return Sum::ZERO;
        };
        to.copy_from_slice(from);
        Sum::of(from)
    }

    /// Returns the sum of one word.
    #[must_use]
    #[inline]
    pub const fn word(word: u16) -> Sum {
        Sum(word)
    }

    /// Returns the sum of the two halves of a 32-bit field.
    #[must_use]
    #[inline]
    pub const fn double(field: u32) -> Sum {
        let [a, b, c, d] = field.to_be_bytes();
        Sum(u16::from_be_bytes([a, b])).plus(u16::from_be_bytes([c, d]))
    }

    /// Returns this sum with one more word.
    #[must_use]
    #[inline]
    pub const fn plus(self, word: u16) -> Sum {
        let (sum, carry) = self.0.overflowing_add(word);
        if carry { Sum(sum + 1) } else { Sum(sum) }
    }

    /// Returns this sum without one of its words.
    #[must_use]
    #[inline]
    pub const fn minus(self, word: u16) -> Sum {
        self.plus(!word)
    }

    /// Returns the folded sum, which is the content of a partial checksum field.
    #[must_use]
    #[inline]
    pub const fn folded(self) -> u16 {
        self.0
    }

    /// Returns the checksum: the complement of the sum.
    #[must_use]
    #[inline]
    pub const fn checksum(self) -> u16 {
        !self.0
    }

    /// Returns the checksum for UDP, where zero means "none" and is replaced by 0xffff (RFC 768).
    #[must_use]
    #[inline]
    pub const fn udp_checksum(self) -> u16 {
        match self.checksum() {
            0 => 0xffff,
            checksum => checksum,
        }
    }

    /// Folds a sum of native-endian words: 64 bits to 33, to 17, to 16. Byte order costs one swap of the result (RFC 1071, 2 B).
    #[inline]
    fn of_native(sum: u64) -> Sum {
        let sum = (sum & 0xffff_ffff) + (sum >> 32);
        let sum = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
        let sum = (sum & 0xffff) + (sum >> 16);
        let [low, high, ..] = sum.to_le_bytes();
        Sum(u16::from_be(u16::from_le_bytes([low, high])))
    }
}

impl Add for Sum {
    type Output = Sum;

    #[inline]
    fn add(self, other: Sum) -> Sum {
        self.plus(other.0)
    }
}

/// Returns the sum of the pseudo header of TCP and UDP over IPv4 (RFC 9293, 3.1). `length` is the number of bytes after the IP header.
#[must_use]
pub fn pseudo_v4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, length: u16) -> Sum {
    let addresses = Sum::of(&source.octets()) + Sum::of(&destination.octets());
    addresses.plus(u16::from(protocol)).plus(length)
}

/// Returns the sum of the pseudo header of TCP, UDP and ICMPv6 over IPv6 (RFC 8200, 8.1). `length` is the length of the upper-layer message.
#[must_use]
pub fn pseudo_v6(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, length: u32) -> Sum {
    let addresses = Sum::of(&source.octets()) + Sum::of(&destination.octets());
    addresses.plus(u16::from(protocol)) + Sum::double(length)
}

/// Returns the checksum after a covered word changed from `old` to `new` (RFC 1624, equation 3).
#[must_use]
pub const fn updated(checksum: u16, old: u16, new: u16) -> u16 {
    Sum(!checksum).minus(old).plus(new).checksum()
}

#[cfg(test)]
mod tests;
