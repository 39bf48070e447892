//! The requests of a client and the answers of the server.

use std::time::Duration;

/// Bytes of every request.
pub(crate) const REQUEST_LEN: usize = 9;
/// Bytes of the answer to a bulk request: how many bytes, in how many microseconds.
pub(crate) const COUNT_LEN: usize = 16;
/// The answer to the other request: any byte would do.
pub(crate) const FIRST_BYTE: [u8; 1] = [b'!'];

const FIRST_BYTE_KIND: u8 = b'f';
const BULK_KIND: u8 = b'b';

/// The times of a bulk transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bulk {
    /// Milliseconds at the start that are not counted.
    pub(crate) omitted_ms: u32,
    /// Milliseconds after them that are.
    pub(crate) counted_ms: u32,
}

impl Bulk {
    /// Returns the time from the request until counting begins.
    pub(crate) fn omitted(self) -> Duration {
        Duration::from_millis(self.omitted_ms.into())
    }

    /// Returns the time from the request until counting ends.
    pub(crate) fn whole(self) -> Duration {
        self.omitted() + Duration::from_millis(self.counted_ms.into())
    }
}

/// The first words on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// One byte, at once.
    FirstByte,
    /// Data follows: take it, count it, and say when it is enough.
    Bulk(Bulk),
}

impl Request {
    /// As it goes over the stream.
    pub(crate) fn encode(self) -> [u8; REQUEST_LEN] {
        let (kind, bulk) = match self {
            Self::FirstByte => (FIRST_BYTE_KIND, Bulk { omitted_ms: 0, counted_ms: 0 }),
            Self::Bulk(bulk) => (BULK_KIND, bulk),
        };
        let mut bytes = [kind; REQUEST_LEN];
        bytes[1..5].copy_from_slice(&bulk.omitted_ms.to_be_bytes());
        bytes[5..].copy_from_slice(&bulk.counted_ms.to_be_bytes());
        bytes
    }

    /// What came over the stream; `None` if it is nothing of ours.
    pub(crate) fn decode(bytes: [u8; REQUEST_LEN]) -> Option<Self> {
        let [kind, a, b, c, d, e, f, g, h] = bytes;
        let bulk = Bulk { omitted_ms: u32::from_be_bytes([a, b, c, d]), counted_ms: u32::from_be_bytes([e, f, g, h]) };
        match kind {
            FIRST_BYTE_KIND => Some(Self::FirstByte),
            BULK_KIND => Some(Self::Bulk(bulk)),
            _ => None,
        }
    }
}

/// The receiver's count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    /// Bytes, in order.
    pub(crate) bytes: u64,
    /// Microseconds of counting.
    pub(crate) microseconds: u64,
}

impl Count {
    /// As it goes over the stream.
    pub(crate) fn encode(self) -> [u8; COUNT_LEN] {
        let mut bytes = [0; COUNT_LEN];
        bytes[..8].copy_from_slice(&self.bytes.to_be_bytes());
        bytes[8..].copy_from_slice(&self.microseconds.to_be_bytes());
        bytes
    }

    /// What came over the stream.
    pub(crate) fn decode(bytes: [u8; COUNT_LEN]) -> Self {
        let both = u128::from_be_bytes(bytes);
        Self { bytes: (both >> 64) as u64, microseconds: both as u64 }
    }
}
