//! Split DNS: which questions of a host belong to the network, for a forwarder that sends all others elsewhere.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use taut_base::Prefix;

use crate::name::{Name, WireName};
use crate::query::{HEADER, Header, Query};

/// Most reverse zones of a prefix, 256: those of IPv4 have a label of 8 bits, so no prefix needs more.
const MAX_ZONES: u32 = 256;
/// Response code of an answer (RFC 1035 section 4.1.1).
const NO_ERROR: u8 = 0;
/// Response code of a server that could not get an answer (RFC 1035 section 4.1.1).
const SERVFAIL: u8 = 2;
/// Response code of a server that does not answer such questions (RFC 1035 section 4.1.1).
const REFUSED: u8 = 5;
/// Response code for a name that does not exist (RFC 1035 section 4.1.1).
const NXDOMAIN: u8 = 3;

/// The place where a question is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The network's stub.
    Network,
    /// Nowhere: libc tried another domain behind a name of the network that does not exist. No server has such a name, and none may learn of it.
    Nowhere,
    /// The servers for all other names.
    Elsewhere,
}

/// The domains whose names are the network's.
#[derive(Clone, Debug, Default)]
pub struct Zones(Box<[Name]>);

impl Zones {
    /// Takes domains as text. One that is no domain name is left out.
    pub fn new<'a>(domains: impl IntoIterator<Item = &'a str>) -> Self {
        Self(domains.into_iter().filter_map(Name::from_text).collect())
    }

    /// Returns where a question is asked: for one of these domains, or a name below it, at the stub. `None` if the message is no question (fault H2).
    pub fn way(&self, question: &[u8]) -> Option<Way> {
        Some(self.way_of(question_of(question)?.name))
    }

    /// Returns where a name is asked for.
    pub(crate) fn way_of(&self, name: WireName<'_>) -> Way {
        if self.0.iter().any(|zone| name.offset_of(zone).is_some()) {
            return Way::Network;
        }
        let contains = |zone: &Name| name.labels().any(|(at, _)| begins_with(name.bytes().get(at..), zone));
        if self.0.iter().filter(|zone| is_network(zone)).any(contains) { Way::Nowhere } else { Way::Elsewhere }
    }
}

/// Returns true for a zone whose labels begin no public name: the base domain of networks, or one of three or more labels. Shorter ones do, as `acme.co` begins `acme.co.uk`.
fn is_network(zone: &Name) -> bool {
    let wire = WireName::of(zone);
    let is_base = Name::from_text("taut.internal").is_some_and(|base| wire.offset_of(&base).is_some());
    is_base || wire.labels().count() > 2
}

/// Returns true if `answer` answers `question`: a response with the same identifier and the same question, whose letters may be of another case.
pub fn is_answer(question: &[u8], answer: &[u8]) -> bool {
    let Some((asked, header)) = Query::parse(question).zip(Header::parse(answer)) else { return false };
    // A server that could not read the question may leave it out.
    let repeated = answer.get(HEADER..HEADER + asked.question.len());
    let same = repeated.is_some_and(|repeated| repeated.eq_ignore_ascii_case(asked.question));
    header.is_response && question.first_chunk::<2>() == answer.first_chunk() && same
}

/// Returns true if the labels of a name begin with those of a zone.
fn begins_with(name: Option<&[u8]>, zone: &Name) -> bool {
    let labels = zone.bytes().split_last().map_or(&[][..], |(_, labels)| labels);
    name.and_then(|name| name.get(..labels.len())).is_some_and(|front| front.eq_ignore_ascii_case(labels))
}

/// Returns the answer to a question that no server answered: SERVFAIL. `None` if the message is no question.
pub fn failure(question: &[u8]) -> Option<Vec<u8>> {
    reply(question, SERVFAIL)
}

/// Returns the answer to a question that this server does not answer: REFUSED. `None` if the message is no question.
pub fn refused(question: &[u8]) -> Option<Vec<u8>> {
    reply(question, REFUSED)
}

/// Returns the answer to a question for a name that does not exist: NXDOMAIN. `None` if the message is no question.
pub fn no_name(question: &[u8]) -> Option<Vec<u8>> {
    reply(question, NXDOMAIN)
}

/// Returns the answer to a question for a name without such records. `None` if the message is no question.
pub fn no_data(question: &[u8]) -> Option<Vec<u8>> {
    reply(question, NO_ERROR)
}

/// Returns true if a question is for one of these domains, or a name below it.
pub fn is_at_or_below(question: &[u8], domains: &Zones) -> bool {
    question_of(question).is_some_and(|query| domains.0.iter().any(|zone| query.name.offset_of(zone).is_some()))
}

/// Returns true if a question is for one of these names.
pub fn is_at(question: &[u8], names: &Zones) -> bool {
    question_of(question).is_some_and(|query| names.0.iter().any(|name| query.name.offset_of(name) == Some(0)))
}

/// Returns true if a message asks for records: its opcode is QUERY, its class IN, and it is no transfer of a zone (RFC 5936 section 2.2). Updates (RFC 2136) look like questions otherwise.
pub fn asks_for_records(message: &[u8]) -> bool {
    let is_query = Header::parse(message).is_some_and(|header| header.opcode == 0);
    is_query && question_of(message).is_some_and(|query| query.is_usual())
}

/// Returns the number of labels of the name that a question is for.
pub fn labels(question: &[u8]) -> usize {
    question_of(question).map_or(0, |query| query.name.labels().count())
}

fn reply(question: &[u8], code: u8) -> Option<Vec<u8>> {
    let query = question_of(question)?;
    let header = Header::parse(question)?;
    let mut answer = Vec::with_capacity(HEADER + query.question.len());
    answer.extend(header.id.to_be_bytes());
    // QR and RA, and the RD of the question.
    answer.extend([0x80 | u8::from(header.wants_recursion), 0x80 | code]);
    answer.extend([0, 1, 0, 0, 0, 0, 0, 0]);
    answer.extend_from_slice(query.question);
    Some(answer)
}

fn question_of(message: &[u8]) -> Option<Query<'_>> {
    Header::parse(message).filter(|header| !header.is_response)?;
    Query::parse(message)
}

/// Returns the reverse zones of a prefix as text, such as `64.100.in-addr.arpa`: those that begin at its first whole label.
pub fn reverse_zones(prefix: Prefix) -> Vec<String> {
    let unit = if prefix.address().is_ipv4() { 8 } else { 4 };
    let labels = u32::from(prefix.length().div_ceil(unit));
    let count = 1_u32 << (labels * u32::from(unit) - u32::from(prefix.length()));
    (0..count.min(MAX_ZONES)).map(|number| reverse_zone(prefix.address(), labels, number)).collect()
}

/// Returns the name of the reverse zone with this many labels whose last one is `number` places behind that of `first`.
fn reverse_zone(first: IpAddr, labels: u32, number: u32) -> String {
    let mut text = String::new();
    match first {
        IpAddr::V4(first) => {
            let step = number.checked_shl(32 - 8 * labels).unwrap_or(0);
            let octets = Ipv4Addr::from_bits(first.to_bits() | step).octets();
            octets.iter().take(labels as usize).rev().for_each(|octet| text += &format!("{octet}."));
            text + "in-addr.arpa"
        }
        IpAddr::V6(first) => {
            let bits = first.to_bits() | u128::from(number).checked_shl(128 - 4 * labels).unwrap_or(0);
            let digits = format!("{:032x}", Ipv6Addr::from_bits(bits).to_bits());
            digits.chars().take(labels as usize).collect::<Vec<_>>().iter().rev().for_each(|digit| {
                text.push(*digit);
                text.push('.');
            });
            text + "ip6.arpa"
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::reverse::{ReverseName, ReverseZones};

    fn question(id: u16, name: &str) -> Vec<u8> {
        let mut message = id.to_be_bytes().to_vec();
        message.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        message.extend_from_slice(Name::from_text(name).unwrap().bytes());
        message.extend([0, 1, 0, 1]);
        message
    }

    #[test]
    fn fault_h4_names_of_the_network_are_told_from_all_others() {
        let zones = Zones::new(["taut.internal", "64.100.in-addr.arpa", "not..a name", "acme.co", "home.corp.example"]);
        for (name, ours) in [
            ("nas.default.taut.internal", Way::Network),
            ("NAS.default.TAUT.Internal", Way::Network),
            ("taut.internal", Way::Network),
            ("1.0.64.100.in-addr.arpa", Way::Network),
            ("1.0.65.100.in-addr.arpa", Way::Elsewhere),
            ("nottaut.internal", Way::Elsewhere),
            ("nas.default.Taut.internal.lan.example", Way::Nowhere),
            ("taut.internalx.example", Way::Elsewhere),
            ("www.acme.co.uk", Way::Elsewhere),
            ("nas.home.corp.example.lan", Way::Nowhere),
            ("taut.internal-x", Way::Elsewhere),
            ("example", Way::Elsewhere),
        ] {
            assert_eq!(zones.way(&question(7, name)), Some(ours), "{name}");
        }
    }

    #[test]
    fn fault_h8_updates_transfers_and_other_classes_ask_for_no_records() {
        let asked = question(7, "example.com");
        assert!(asks_for_records(&asked));
        for (at, byte) in [(2, 5 << 3), (2, 4 << 3), (2, 0x80), (asked.len() - 3, 252), (asked.len() - 1, 3)] {
            let mut other = asked.clone();
            other[at] = byte;
            assert!(!asks_for_records(&other), "byte {at} is {byte}");
        }
        let names = Zones::new(["example.com"]);
        assert!(is_at(&asked, &names) && !is_at(&question(7, "www.example.com"), &names));
    }

    #[test]
    fn fault_h2_only_the_answer_to_the_question_is_one() {
        let asked = question(7, "Example.com");
        let mut answer = question(7, "example.com");
        answer[2] |= 0x80;
        assert!(is_answer(&asked, &answer));
        assert!(!is_answer(&asked, &asked), "a question is no answer");
        assert!(!is_answer(&question(8, "example.com"), &answer), "another identifier");
        assert!(!is_answer(&question(7, "example.org"), &answer), "another name");
        assert!(!is_answer(&asked, &answer[..20]), "cut off");
        let failed = failure(&asked).unwrap();
        assert!(is_answer(&asked, &failed) && failed[3] & 15 == SERVFAIL);
        assert_eq!(no_name(&asked).unwrap()[3] & 15, NXDOMAIN);
        assert_eq!((failure(&failed), Zones::default().way(&failed)), (None, None));
    }

    #[test]
    fn reverse_zones_are_those_that_the_stub_answers_for() {
        let zones = |text: &str| reverse_zones(text.parse().unwrap());
        assert_eq!(zones("10.1.2.0/24"), ["2.1.10.in-addr.arpa"]);
        assert_eq!(zones("10.1.2.4/30").len(), 4);
        for prefix in ["100.64.0.0/10", "10.1.2.4/30", "fd12:3456:789a::/64", "fd12:3450::/30", "10.0.0.0/8"] {
            let (prefix, own): (Prefix, _) = (prefix.parse().unwrap(), ReverseZones::new(prefix.parse().unwrap()));
            for zone in reverse_zones(prefix) {
                let asked = question(1, &zone);
                let name = ReverseName::parse(Query::parse(&asked).unwrap().name).unwrap();
                assert!(own.contain(&name) && own.is_apex(&name), "{zone} of {prefix}");
            }
        }
        assert_eq!(zones("100.64.0.0/10").len(), 64);
        assert_eq!(zones("100.64.0.0/10").last().unwrap(), "127.100.in-addr.arpa");
        assert_eq!(zones("fd12:3456:789a::/48"), ["a.9.8.7.6.5.4.3.2.1.d.f.ip6.arpa"]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged_without_harm(one in proptest::collection::vec(any::<u8>(), 0..80), other in proptest::collection::vec(any::<u8>(), 0..80)) {
            let zones = Zones::new(["taut.internal"]);
            prop_assert_eq!(zones.way(&one).is_some(), failure(&one).is_some());
            prop_assert!(!is_answer(&one, &other) || one.get(..2) == other.get(..2));
        }
    }
}
