//! Questions: the header, the question and EDNS of a message (RFC 1035 section 4.1, RFC 6891).

use crate::name::{WireName, skip};

/// Length of a message's header, 12 bytes (RFC 1035 section 4.1.1).
pub(crate) const HEADER: usize = 12;

/// Class IN (RFC 1035 section 3.2.4).
pub(crate) const CLASS_IN: u16 = 1;

/// Types of records (RFC 1035 section 3.2.2, RFC 3596 section 2.1, RFC 6891 section 6.1.1), and ANY of questions.
pub(crate) mod kind {
    pub(crate) const A: u16 = 1;
    pub(crate) const NS: u16 = 2;
    pub(crate) const SOA: u16 = 6;
    pub(crate) const PTR: u16 = 12;
    pub(crate) const AAAA: u16 = 28;
    pub(crate) const OPT: u16 = 41;
    /// The first type that only questions have: transfers and the like, up to 254 (RFC 6895 section 3.1).
    pub(crate) const FIRST_META: u16 = 128;
    pub(crate) const LAST_META: u16 = 254;
    pub(crate) const ANY: u16 = 255;
}

/// The header of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Identifier; the answer repeats it.
    pub(crate) id: u16,
    /// QR: the message is an answer.
    pub(crate) is_response: bool,
    /// Kind of the question; 0 is QUERY.
    pub(crate) opcode: u8,
    /// RD: the client wants recursion; the answer repeats it.
    pub(crate) wants_recursion: bool,
}

impl Header {
    /// Reads the header of a message; `None` if it is cut off.
    pub(crate) fn parse(message: &[u8]) -> Option<Self> {
        let [a, b, flags, ..] = message.first_chunk::<HEADER>()?;
        Some(Self {
            id: u16::from_be_bytes([*a, *b]),
            is_response: flags & 0x80 != 0,
            opcode: (flags >> 3) & 0x0f,
            wants_recursion: flags & 1 != 0,
        })
    }
}

/// The fields of a question's OPT record (EDNS, RFC 6891 section 6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edns {
    /// Longest datagram that it takes, in bytes.
    pub(crate) size: u16,
    /// Version of EDNS.
    pub(crate) version: u8,
    /// DO: the client wants DNSSEC's records; the answer repeats it (RFC 3225 section 3).
    pub(crate) dnssec_ok: bool,
}

/// A well-formed question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Query<'a> {
    /// The name asked for.
    pub(crate) name: WireName<'a>,
    /// The type asked for.
    pub(crate) kind: u16,
    /// The class asked for.
    pub(crate) class: u16,
    /// The question as it is in the message, which the answer repeats.
    pub(crate) question: &'a [u8],
    /// The OPT record; `None` if the client does not speak EDNS.
    pub(crate) edns: Option<Edns>,
}

impl<'a> Query<'a> {
    /// Returns true if it asks for records of class IN. A transfer of a zone is more than one message (RFC 5936 section 2.2).
    pub(crate) fn is_usual(&self) -> bool {
        self.class == CLASS_IN && !(kind::FIRST_META..=kind::LAST_META).contains(&self.kind)
    }

    /// Reads a message with one question (RFC 9619). Records behind it are skipped, except for one OPT. Returns `None` if the message is malformed: it has another
    /// number of questions, two OPT, or is cut off. Bytes behind the last record are ignored.
    pub(crate) fn parse(message: &'a [u8]) -> Option<Self> {
        let count = |at| be16(message, at);
        if count(4)? != 1 {
            return None;
        }
        let name = WireName::parse(message.get(HEADER..)?)?;
        let at = HEADER + name.bytes().len();
        let mut query = Self {
            name,
            kind: be16(message, at)?,
            class: be16(message, at + 2)?,
            question: message.get(HEADER..at + 4)?,
            edns: None,
        };
        let mut at = at + 4;
        let others = usize::from(count(6)?) + usize::from(count(8)?);
        for place in 0..others + usize::from(count(10)?) {
            let record = Record::parse(message, at)?;
            at = record.end;
            if record.kind == kind::OPT {
                let edns = record.edns(message).filter(|_| place >= others && query.edns.is_none())?;
                query.edns = Some(edns);
            }
        }
        Some(query)
    }
}

/// A record of a question, as far as it is needed to skip it.
struct Record {
    start: usize,
    /// Offset behind the name.
    fixed: usize,
    kind: u16,
    end: usize,
}

impl Record {
    fn parse(message: &[u8], start: usize) -> Option<Self> {
        /// Type, class, time to live and length (RFC 1035 section 4.1.3).
        const FIXED: usize = 10;
        let fixed = skip(message, start)?;
        let end = fixed + FIXED + usize::from(be16(message, fixed + 8)?);
        Some(Self { start, fixed, kind: be16(message, fixed)?, end }).filter(|record| record.end <= message.len())
    }

    /// Reads an OPT record, whose name is the root's.
    fn edns(&self, message: &[u8]) -> Option<Edns> {
        let dnssec_ok = be16(message, self.fixed + 6)? & 0x8000 != 0;
        let version = *message.get(self.fixed + 5)?;
        let size = be16(message, self.fixed + 2)?;
        (message.get(self.start)? == &0).then_some(Edns { size, version, dnssec_ok })
    }
}

pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|field| u16::from_be_bytes(*field))
}
