//! Building requests: a header, a fixed part, attributes. Everything is aligned to four bytes.

use crate::abi;

/// `struct nlmsghdr`: length, type, flags, sequence, port.
pub(crate) const HEADER_LEN: usize = 16;

/// A request under construction.
pub(crate) struct NetlinkRequest {
    bytes: Vec<u8>,
}

impl NetlinkRequest {
    /// Starts a request of `kind` with the fixed part `fixed`. Every request has an answer: the kernel ends a dump with
    /// a "done" message, and acknowledges any other request.
    pub(crate) fn new(kind: u16, flags: u16, fixed: &[u8]) -> Self {
        let acknowledge = if flags & abi::NLM_F_DUMP == abi::NLM_F_DUMP && is_query(kind) { 0 } else { abi::NLM_F_ACK };
        let flags = flags | abi::NLM_F_REQUEST | acknowledge;
        let mut bytes = Vec::with_capacity(128);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(fixed);
        let mut request = Self { bytes };
        request.align();
        request
    }

    /// Starts a request for all objects of a `kind` that is not rtnetlink's. The kernel ends the answer with a "done" message.
    pub(crate) fn dump_of(kind: u16, fixed: &[u8]) -> Self {
        let mut request = Self::new(kind, 0, fixed);
        request.bytes[6..8].copy_from_slice(&(abi::NLM_F_REQUEST | abi::NLM_F_DUMP).to_ne_bytes());
        request
    }

    /// Appends an attribute.
    pub(crate) fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        // A request has a handful of small attributes, so the length always fits.
        let length = u16::try_from(self.bytes.len() - start).unwrap_or(u16::MAX);
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.align();
        self
    }

    /// Appends an attribute that is a number.
    pub(crate) fn number(self, kind: u16, value: u32) -> Self {
        self.attribute(kind, &value.to_ne_bytes())
    }

    /// Returns the finished request with its length and sequence number.
    pub(crate) fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        self.bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// Returns true for "get" requests: every fourth type, starting at `RTM_GETLINK`. Only in these do the dump bits mean a dump.
fn is_query(kind: u16) -> bool {
    kind % 4 == abi::RTM_GETLINK % 4
}

#[cfg(test)]
mod tests {
    use super::NetlinkRequest;
    use crate::abi;
    use crate::parse::{attributes, messages};

    #[test]
    fn what_is_built_can_be_parsed() {
        let bytes = NetlinkRequest::new(abi::RTM_NEWLINK, 0, &[1, 2, 3, 4])
            .attribute(abi::IFLA_IFNAME, b"taut0\0")
            .number(abi::IFLA_MTU, 1_420)
            .finish(77);
        assert_eq!(bytes.len() % 4, 0);
        let message = messages(&bytes).next().unwrap().unwrap();
        assert_eq!((message.kind, message.sequence), (abi::RTM_NEWLINK, 77));
        assert_eq!(message.flags, abi::NLM_F_REQUEST | abi::NLM_F_ACK);
        let (fixed, rest) = message.payload.split_at(4);
        assert_eq!(fixed, [1, 2, 3, 4]);
        let attributes: Vec<_> = attributes(rest).map(Result::unwrap).collect();
        assert_eq!(attributes[0], (abi::IFLA_IFNAME, &b"taut0\0"[..]));
        assert_eq!(attributes[1], (abi::IFLA_MTU, &1_420_u32.to_ne_bytes()[..]));
    }

    #[test]
    fn dumps_are_not_acknowledged_and_replacements_are() {
        let flags = |kind, flags| {
            let bytes = NetlinkRequest::new(kind, flags, &[]).finish(0);
            messages(&bytes).next().unwrap().unwrap().flags
        };
        assert_eq!(flags(abi::RTM_GETROUTE, abi::NLM_F_DUMP), abi::NLM_F_REQUEST | abi::NLM_F_DUMP);
        let replace = abi::NLM_F_CREATE | abi::NLM_F_REPLACE | abi::NLM_F_EXCL;
        assert_eq!(flags(abi::RTM_NEWROUTE, replace), abi::NLM_F_REQUEST | abi::NLM_F_ACK | replace);
    }
}
