//! Attributes, addresses in them, and the fingerprint (RFC 8489 sections 14, 14.1, 14.2, 14.7).

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::{ATTRIBUTE, BadStun, COOKIE, FINGERPRINT, Transaction};
use crate::bytes::{array, be16, be32, put, put8, put16};

/// Iterator over the attributes of a message with a checked length. It ends after the first error, and at the fingerprint, which it checks but does not yield.
pub(super) struct Attributes<'a> {
    message: &'a [u8],
    at: usize,
}

impl<'a> Attributes<'a> {
    /// Returns the attributes of `message` from offset `at`.
    pub(super) fn new(message: &'a [u8], at: usize) -> Self {
        Self { message, at }
    }

    fn read(&self) -> Result<(u16, &'a [u8]), BadStun> {
        let rest = self.message.get(self.at..).ok_or(BadStun::Attribute)?;
        let length = usize::from(be16(rest, 2));
        let value = rest.get(ATTRIBUTE..ATTRIBUTE + length).ok_or(BadStun::Attribute)?;
        Ok((be16(rest, 0), value))
    }

    /// Checks that the fingerprint is the last attribute, and correct.
    fn check(&self, value: &[u8]) -> Result<(), BadStun> {
        let covered = self.message.get(..self.at).unwrap_or_default();
        let right = value.len() == 4 && be32(value, 0) == fingerprint(covered);
        let last = self.at + ATTRIBUTE + 4 == self.message.len();
        if right && last { Ok(()) } else { Err(BadStun::Fingerprint) }
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<(u16, &'a [u8]), BadStun>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.message.len() {
            return None;
        }
        let item = match self.read() {
            Ok((FINGERPRINT, value)) => match self.check(value) {
                Ok(()) => None,
                Err(error) => Some(Err(error)),
            },
            item => Some(item),
        };
        self.at = match item {
            Some(Ok((_, value))) => self.at + ATTRIBUTE + value.len().next_multiple_of(4),
            _ => self.message.len(),
        };
        item
    }
}

/// Returns the length of an attribute's value with this address.
pub(super) fn address_len(address: SocketAddr) -> usize {
    if address.ip().to_canonical().is_ipv4() { 8 } else { 20 }
}

/// Writes an address. With a transaction it is masked (XOR), so that no NAT rewrites it.
pub(super) fn write_address(out: &mut [u8], at: usize, address: SocketAddr, transaction: Option<&Transaction>) {
    let mask = mask(transaction);
    put16(out, at + 2, address.port() ^ be16(&mask, 0));
    match address.ip().to_canonical() {
        IpAddr::V4(v4) => {
            put8(out, at + 1, 1);
            put(out, at + 4, (u32::from(v4) ^ be32(&mask, 0)).to_be_bytes());
        }
        IpAddr::V6(v6) => {
            put8(out, at + 1, 2);
            put(out, at + 4, (u128::from(v6) ^ u128::from_be_bytes(mask)).to_be_bytes());
        }
    }
}

/// Reads the address that [`write_address`] wrote.
pub(super) fn read_address(value: &[u8], transaction: Option<&Transaction>) -> Option<SocketAddr> {
    let mask = mask(transaction);
    let port = be16(value, 2) ^ be16(&mask, 0);
    let ip = match (value.get(1)?, value.len()) {
        (1, 8) => IpAddr::from((be32(value, 4) ^ be32(&mask, 0)).to_be_bytes()),
        (2, 20) => IpAddr::V6(Ipv6Addr::from(u128::from_be_bytes(*array(value, 4)?) ^ u128::from_be_bytes(mask)))
            .to_canonical(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

fn mask(transaction: Option<&Transaction>) -> [u8; 16] {
    let mut mask = [0; 16];
    if let Some(transaction) = transaction {
        put(&mut mask, 0, COOKIE);
        put(&mut mask, 4, *transaction);
    }
    mask
}

/// Returns the CRC-32 (ITU-T V.42) of the bytes before the fingerprint, masked as in RFC 8489 section 14.7. Computed bit by bit, because messages are rare and
/// short.
pub(super) fn fingerprint(covered: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in covered {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    !crc ^ 0x5354_554e
}
