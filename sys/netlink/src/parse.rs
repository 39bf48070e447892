//! Parses the kernel's answers. Every length is checked against the received bytes, and each step consumes some of them, so parsing ends for any input.

use crate::message::HEADER_LEN;
use std::net::IpAddr;

/// A malformed message: the name of the invalid field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// One message of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    pub(crate) payload: &'a [u8],
}

/// Returns the messages of one datagram. The iterator ends after the first malformed one.
pub(crate) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Result<Message<'_>, Malformed>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let message = split_message(&mut bytes);
        if message.is_err() {
            bytes = &[];
        }
        Some(message)
    })
}

/// Returns the attributes in `bytes` as (type, value). The iterator ends after the first malformed one.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = Result<(u16, &[u8]), Malformed>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let attribute = split_attribute(&mut bytes);
        if attribute.is_err() {
            bytes = &[];
        }
        Some(attribute)
    })
}

fn split_message<'a>(bytes: &mut &'a [u8]) -> Result<Message<'a>, Malformed> {
    let length = usize::try_from(u32_at(bytes, 0)?).map_err(|_| Malformed("message length"))?;
    let whole = bytes.get(..length).filter(|whole| whole.len() >= HEADER_LEN).ok_or(Malformed("message length"))?;
    let message = Message {
        kind: u16_at(whole, 4)?,
        flags: u16_at(whole, 6)?,
        sequence: u32_at(whole, 8)?,
        payload: &whole[HEADER_LEN..],
    };
    // The last message of a datagram need not be padded.
    *bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Ok(message)
}

fn split_attribute<'a>(bytes: &mut &'a [u8]) -> Result<(u16, &'a [u8]), Malformed> {
    let length = usize::from(u16_at(bytes, 0)?);
    // The top two bits mean "nested" and "network byte order" (netlink.h, NLA_TYPE_MASK). They are cleared, because the type implies both.
    let kind = u16_at(bytes, 2)? & 0x3fff;
    let value = bytes.get(4..length).ok_or(Malformed("attribute length"))?;
    *bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Ok((kind, value))
}

pub(crate) fn u8_at(bytes: &[u8], offset: usize) -> Result<u8, Malformed> {
    bytes.get(offset).copied().ok_or(Malformed("field"))
}

pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Result<u16, Malformed> {
    array_at(bytes, offset).map(u16::from_ne_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Result<u32, Malformed> {
    array_at(bytes, offset).map(u32::from_ne_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Result<u64, Malformed> {
    array_at(bytes, offset).map(u64::from_ne_bytes)
}

fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> Result<[u8; N], Malformed> {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).copied().ok_or(Malformed("field"))
}

/// Returns the IPv4 or IPv6 address in `bytes`, by their number.
pub(crate) fn ip(bytes: &[u8]) -> Result<IpAddr, Malformed> {
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        return Ok(octets.into());
    }
    <[u8; 16]>::try_from(bytes).map(IpAddr::from).map_err(|_| Malformed("address length"))
}

/// Returns the text up to its terminating zero byte.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests;
