//! The requests of a client and the answers of the server.

use std::time::Duration;

/// Bytes of every request.
pub(crate) const REQUEST_LEN: usize = 9;
/// Bytes of the answer to a bulk request: a number of bytes and a number of microseconds.
pub(crate) const COUNT_LEN: usize = 16;
/// The answer to a first-byte request. The value has no meaning.
pub(crate) const FIRST_BYTE: [u8; 1] = [b'!'];

const FIRST_BYTE_KIND: u8 = b'f';
const BULK_KIND: u8 = b'b';

/// The times of a bulk transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bulk {
    /// Milliseconds at the start that are not counted.
    pub(crate) omitted_ms: u32,
    /// Milliseconds after them that are counted.
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

/// The first bytes on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// A request for one byte, at once.
    FirstByte,
    /// A request to receive and count the data that follows, and to stop the stream at the end of the time.
    Bulk(Bulk),
}

impl Request {
    /// Returns the bytes of the request on the stream.
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

    /// Parses the bytes of a request. Returns `None` for an unknown request.
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
    /// Bytes received in order.
    pub(crate) bytes: u64,
    /// Microseconds of the counted time.
    pub(crate) microseconds: u64,
}

impl Count {
    /// Returns the bytes of the count on the stream.
    pub(crate) fn encode(self) -> [u8; COUNT_LEN] {
        let mut bytes = [0; COUNT_LEN];
        bytes[..8].copy_from_slice(&self.bytes.to_be_bytes());
        bytes[8..].copy_from_slice(&self.microseconds.to_be_bytes());
        bytes
    }

    /// Parses the bytes of a count.
    pub(crate) fn decode(bytes: [u8; COUNT_LEN]) -> Self {
        let both = u128::from_be_bytes(bytes);
        Self { bytes: (both >> 64) as u64, microseconds: both as u64 }
    }
}
