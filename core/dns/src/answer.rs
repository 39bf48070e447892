//! Answers: what a node knows of a question, and the message that says it.

use std::borrow::Cow;
use std::net::IpAddr;

use crate::extra::Found;
use crate::name::Name;
use crate::names::Names;
use crate::query::{CLASS_IN, Edns, HEADER, Header, Query, kind};
use crate::reverse::{ReverseName, ReverseZones};

/// Longest answer over UDP to a client without EDNS, 512 bytes (RFC 1035 section 4.2.1).
const PLAIN_UDP: usize = 512;
/// Longest datagram of this node in either direction, 1,232 bytes: what fits every path of IPv6 without fragments (RFC 9715 section 3.1).
pub const MAX_UDP: u16 = 1_232;
/// Time to live of records, and of the knowledge that there are none, 10 s. To ask again costs a millisecond on the same host, and a renamed node should have its name
/// soon in every cache.
const TTL: u32 = 10;
/// Refresh, retry and expire of the zone's SOA, in seconds: an hour, ten minutes, a day. There are no secondary servers that would use them.
const SOA_TIMES: [u32; 3] = [3_600, 600, 86_400];
/// The mailbox of the zone's SOA, `nobody.invalid` (RFC 7534 section 3.4 uses the same): nobody reads it.
const MAILBOX: &[u8] = b"\x06nobody\x07invalid\0";
/// A pointer to the name of the question (RFC 1035 section 4.1.4).
const QUESTION_NAME: u16 = 0xc000 | HEADER as u16;

/// Response codes (RFC 1035 section 4.1.1, RFC 6891 section 9).
mod code {
    pub(super) const NO_ERROR: u16 = 0;
    pub(super) const FORMAT_ERROR: u16 = 1;
    pub(super) const NAME_ERROR: u16 = 3;
    pub(super) const NOT_IMPLEMENTED: u16 = 4;
    pub(super) const REFUSED: u16 = 5;
    pub(super) const BAD_VERSION: u16 = 16;
}

/// The transport of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// UDP on a path that carries answers of this many bytes.
    Udp(u16),
    /// TCP: an answer has up to 65,535 bytes (RFC 7766 section 8).
    Tcp,
}

impl Transport {
    /// Returns the longest answer to a client.
    pub(crate) fn limit(self, edns: Option<Edns>) -> usize {
        match self {
            Self::Udp(path) => {
                let client = edns.map_or(PLAIN_UDP, |edns| usize::from(edns.size).max(PLAIN_UDP));
                client.min(usize::from(path.min(MAX_UDP)))
            }
            Self::Tcp => usize::from(u16::MAX),
        }
    }
}

/// Returns the answer to a message; `None` for a message that is an answer itself or has no header, because two servers could go on answering each other.
pub fn respond(names: &Names, message: &[u8], transport: Transport) -> Option<Vec<u8>> {
    let header = Header::parse(message).filter(|header| !header.is_response)?;
    if header.opcode != 0 {
        return Some(Reply::new(header, None).finish(code::NOT_IMPLEMENTED, usize::MAX));
    }
    let Some(query) = Query::parse(message) else {
        return Some(Reply::new(header, None).finish(code::FORMAT_ERROR, usize::MAX));
    };
    let limit = transport.limit(query.edns);
    let mut reply = Reply::new(header, Some(query));
    if query.edns.is_some_and(|edns| edns.version != 0) {
        return Some(reply.finish(code::BAD_VERSION, limit));
    }
    let knowledge = find(names, &query);
    let code = reply.tell(names, &knowledge);
    Some(reply.finish(code, limit))
}

/// Returns an answer of another server as it is if it has at most `limit` bytes, and otherwise without its records and with TC, which tells the client to ask over TCP (RFC 2181 section 9).
pub(crate) fn cut_to(answer: &[u8], limit: usize) -> Cow<'_, [u8]> {
    if answer.len() <= limit {
        return Cow::Borrowed(answer);
    }
    let question = Query::parse(answer).map_or(&[][..], |query| query.question);
    let mut cut = answer.get(..HEADER).unwrap_or_default().to_vec();
    if let Some([flags, rest @ ..]) = cut.get_mut(2..) {
        *flags |= 2;
        // The counts are behind the second byte of flags.
        rest.iter_mut().skip(1).for_each(|count| *count = 0);
        if let Some(count) = rest.get_mut(2) {
            *count = u8::from(!question.is_empty());
        }
    }
    cut.extend_from_slice(question);
    Cow::Owned(cut)
}

/// The result of looking a name and a type up.
enum Knowledge {
    /// It is no name of this network, or no question that this node answers.
    Refused,
    /// These records have the name as their owner.
    Records(Vec<Data>),
    /// The name exists without records of this type. The zone's name begins at this offset in the name.
    NoData(usize),
    /// The name does not exist. The zone's name begins at this offset in the name.
    NoName(usize),
}

/// The data of a record.
enum Data {
    Address(IpAddr),
    Pointer(Name),
    Server,
    Authority,
}

fn find(names: &Names, query: &Query<'_>) -> Knowledge {
    // Nobody may copy the zone (types AXFR and IXFR); the other types of questions are no longer in use.
    if query.class != CLASS_IN || (kind::FIRST_META..=kind::LAST_META).contains(&query.kind) {
        return Knowledge::Refused;
    }
    match query.name.offset_of(names.zone()) {
        Some(offset) => forward(names, query, offset),
        None => record(names, query).unwrap_or_else(|| reverse(names, query)),
    }
}

/// Answers for a name outside of the network's zone that the operator's records speak of: each of them is a zone of its own.
fn record(names: &Names, query: &Query<'_>) -> Option<Knowledge> {
    match names.record(query.name) {
        Found::Addresses(addresses, zone) => Some(records(address_records(addresses, query.kind), zone)),
        Found::Below(zone) => Some(Knowledge::NoName(zone)),
        // The domain of a record with `*.` in front is the record's, too.
        Found::Empty => Some(Knowledge::NoData(0)),
        Found::Above | Found::Nothing => None,
    }
}

/// Answers for a name in the zone, which begins at `offset` in the name.
fn forward(names: &Names, query: &Query<'_>, offset: usize) -> Knowledge {
    let mut front = query.name.labels().take_while(|(at, _)| *at < offset);
    let addresses = match (front.next(), front.next()) {
        (None, _) => return apex(names, query.kind, offset),
        (Some((_, label)), None) => names.addresses(label),
        _ => None,
    };
    if let Some(addresses) = addresses {
        return records(address_records(addresses, query.kind), offset);
    }
    match names.record_in_zone(query.name, offset) {
        Found::Addresses(addresses, _) => records(address_records(addresses, query.kind), offset),
        Found::Empty | Found::Above => Knowledge::NoData(offset),
        Found::Below(_) | Found::Nothing => Knowledge::NoName(offset),
    }
}

/// Answers for the zone's own name.
fn apex(names: &Names, wanted: u16, offset: usize) -> Knowledge {
    let found = match wanted {
        kind::SOA | kind::ANY => vec![Data::Authority],
        kind::NS => vec![Data::Server],
        _ => address_records(names.stub(), wanted),
    };
    records(found, offset)
}

/// Returns the addresses of the family that the type asks for. ANY gets one set, that of the first address (RFC 8482 section 4.1).
fn address_records(addresses: &[IpAddr], wanted: u16) -> Vec<Data> {
    let is_v4 = match wanted {
        kind::A => true,
        kind::AAAA => false,
        kind::ANY => addresses.first().is_some_and(IpAddr::is_ipv4),
        _ => return Vec::new(),
    };
    addresses.iter().filter(|address| address.is_ipv4() == is_v4).map(|address| Data::Address(*address)).collect()
}

/// Answers for a name of an address.
fn reverse(names: &Names, query: &Query<'_>) -> Knowledge {
    let Some(name) = ReverseName::parse(query.name) else { return Knowledge::Refused };
    let Some(zones) = names.reverse().iter().find(|zones| zones.contain(&name)) else { return Knowledge::Refused };
    let offset = zones.apex_offset(query.name);
    let found = reverse_records(names, zones, &name, query.kind);
    match found {
        Some(found) => records(found, offset),
        None => Knowledge::NoName(offset),
    }
}

/// Returns the records of a name of an address, `None` if the name does not exist. A name with names below it exists (RFC 8020).
fn reverse_records(names: &Names, zones: &ReverseZones, name: &ReverseName, wanted: u16) -> Option<Vec<Data>> {
    if name.has_more {
        return None;
    }
    let address = name.prefix.address();
    let owner = names.name_at(address).filter(|_| name.prefix == taut_base::Prefix::host(address));
    let is_apex = zones.is_apex(name);
    match (owner, wanted) {
        (Some(owner), kind::PTR | kind::ANY) => Some(vec![Data::Pointer(owner)]),
        (_, kind::SOA | kind::ANY) if is_apex => Some(vec![Data::Authority]),
        (_, kind::NS) if is_apex => Some(vec![Data::Server]),
        (owner, _) => (is_apex || owner.is_some() || names.has_name_in(name.prefix)).then(Vec::new),
    }
}

fn records(found: Vec<Data>, offset: usize) -> Knowledge {
    if found.is_empty() { Knowledge::NoData(offset) } else { Knowledge::Records(found) }
}

/// An answer in the making.
struct Reply<'a> {
    header: Header,
    query: Option<Query<'a>>,
    /// Everything behind the question.
    records: Vec<u8>,
    /// Records in the answer and in the authority section.
    counts: [u16; 2],
    is_authoritative: bool,
}

impl<'a> Reply<'a> {
    fn new(header: Header, query: Option<Query<'a>>) -> Self {
        Self { header, query, records: Vec::new(), counts: [0; 2], is_authoritative: false }
    }

    /// Writes the records that say this. Returns the response code.
    fn tell(&mut self, names: &Names, knowledge: &Knowledge) -> u16 {
        self.is_authoritative = !matches!(knowledge, Knowledge::Refused);
        match knowledge {
            Knowledge::Refused => code::REFUSED,
            Knowledge::Records(found) => {
                for data in found {
                    self.record(names, QUESTION_NAME, data);
                    self.counts[0] += 1;
                }
                code::NO_ERROR
            }
            Knowledge::NoData(zone) | Knowledge::NoName(zone) => {
                // The SOA says for how long this may be kept (RFC 2308 section 3).
                self.record(names, QUESTION_NAME + *zone as u16, &Data::Authority);
                self.counts[1] += 1;
                if matches!(knowledge, Knowledge::NoName(_)) { code::NAME_ERROR } else { code::NO_ERROR }
            }
        }
    }

    /// Writes a record whose name is the one that `owner` points to.
    fn record(&mut self, names: &Names, owner: u16, data: &Data) {
        let (kind, bytes) = match data {
            Data::Address(IpAddr::V4(address)) => (kind::A, address.octets().to_vec()),
            Data::Address(IpAddr::V6(address)) => (kind::AAAA, address.octets().to_vec()),
            Data::Pointer(name) => (kind::PTR, name.bytes().to_vec()),
            Data::Server => (kind::NS, names.zone().bytes().to_vec()),
            Data::Authority => (kind::SOA, authority(names)),
        };
        self.records.extend_from_slice(&owner.to_be_bytes());
        self.records.extend_from_slice(&kind.to_be_bytes());
        self.records.extend_from_slice(&CLASS_IN.to_be_bytes());
        self.records.extend_from_slice(&TTL.to_be_bytes());
        // The longest data is two names and 20 bytes.
        self.records.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
        self.records.extend_from_slice(&bytes);
    }

    /// Returns the message. If it has more than `limit` bytes, its records are left out, and TC tells the client to ask over TCP (RFC 2181 section 9).
    fn finish(mut self, code: u16, limit: usize) -> Vec<u8> {
        let question = self.query.map_or(&[][..], |query: Query<'a>| query.question);
        let options = self.query.and_then(|query| query.edns).map(|edns| edns_record(edns, code));
        let is_cut = HEADER + question.len() + self.records.len() + options.map_or(0, |options| options.len()) > limit;
        if is_cut {
            self.records.clear();
            self.counts = [0; 2];
        }
        let mut message = Vec::with_capacity(HEADER + question.len() + self.records.len() + EDNS_RECORD);
        message.extend_from_slice(&self.header.id.to_be_bytes());
        message.extend_from_slice(&self.flags(code, is_cut).to_be_bytes());
        let [answers, authorities] = self.counts;
        for count in [u16::from(!question.is_empty()), answers, authorities, u16::from(options.is_some())] {
            message.extend_from_slice(&count.to_be_bytes());
        }
        message.extend_from_slice(question);
        message.extend_from_slice(&self.records);
        message.extend_from_slice(options.as_ref().map_or(&[], |options| options.as_slice()));
        message
    }

    fn flags(&self, code: u16, is_cut: bool) -> u16 {
        let bits = [(true, 15), (self.is_authoritative, 10), (is_cut, 9), (self.header.wants_recursion, 8)];
        let bits = bits.into_iter().filter(|(is_set, _)| *is_set).fold(0, |flags, (_, bit)| flags | 1 << bit);
        bits | u16::from(self.header.opcode) << 11 | code & 0x0f
    }
}

/// Length of an OPT record without options.
const EDNS_RECORD: usize = 11;

/// Returns the OPT record of an answer (RFC 6891 section 6.1.2), with the high bits of the response code.
fn edns_record(client: Edns, code: u16) -> [u8; EDNS_RECORD] {
    let ([_, kind], [size, size_low]) = (kind::OPT.to_be_bytes(), MAX_UDP.to_be_bytes());
    let dnssec_ok = if client.dnssec_ok { 0x80 } else { 0 };
    [0, 0, kind, size, size_low, (code >> 4) as u8, 0, dnssec_ok, 0, 0, 0]
}

/// Returns the data of the zone's SOA (RFC 1035 section 3.3.13). The zone's own name is that of its server.
fn authority(names: &Names) -> Vec<u8> {
    let mut data = [names.zone().bytes(), MAILBOX].concat();
    for number in [names.serial()].into_iter().chain(SOA_TIMES).chain([TTL]) {
        data.extend_from_slice(&number.to_be_bytes());
    }
    data
}

#[cfg(test)]
mod tests;
