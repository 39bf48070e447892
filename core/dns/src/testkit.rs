//! Helpers of this crate's tests: a network, questions, and a strict reader of answers.

use std::net::IpAddr;

use crate::names::{Names, Network};

/// Returns the network `home` with the nodes `me`, `web` and `v4`.
pub(crate) fn names() -> Names {
    let [me, web, v4] = [["100.64.0.1", "fd12::1"], ["100.64.0.2", "fd12::2"], ["100.64.0.3", ""]]
        .map(|addresses| addresses.iter().filter_map(|text| text.parse().ok()).collect::<Vec<IpAddr>>());
    names_with(&[("me", &me), ("web", &web), ("v4", &v4)])
}

/// Returns the network `home` with these nodes.
pub(crate) fn names_with(nodes: &[(&str, &[IpAddr])]) -> Names {
    let own: [IpAddr; 2] = ["100.64.0.1", "fd12::1"].map(|text| text.parse().unwrap());
    let prefixes = ["100.64.0.0/10", "fd12::/64"].map(|text| text.parse().unwrap());
    let network = Network { zone: "home.taut.internal", serial: 7, prefixes, own: &own };
    Names::new(network, nodes.iter().copied()).unwrap()
}

/// Returns the network `home` with records of its operator, and the domain `corp.example` of other servers.
pub(crate) fn chosen_names() -> Names {
    let [printer, app, server] = ["10.1.0.7", "10.1.0.8", "10.1.0.53"].map(|text| [text.parse::<IpAddr>().unwrap()]);
    let records = [
        ("printer.home.taut.internal", &printer[..]),
        ("web.home.taut.internal", &printer[..]),
        ("a.b.home.taut.internal", &printer[..]),
        ("*.home.taut.internal", &app[..]),
        ("git.corp.example", &printer[..]),
        ("*.apps.example", &app[..]),
    ];
    names().with_records(records).with_domains([("corp.example", &server[..])])
}

/// Returns a question of class IN without EDNS.
pub(crate) fn question(name: &str, kind: u16) -> Vec<u8> {
    query(0x0100, name, [kind, 1], &[])
}

/// Returns a message with one question for a name, a type and a class; `additional` is the one record behind it.
pub(crate) fn query(flags: u16, name: &str, kind_and_class: [u16; 2], additional: &[u8]) -> Vec<u8> {
    let mut message = vec![0x12, 0x34];
    for field in [flags, 1, 0, 0, u16::from(!additional.is_empty())] {
        message.extend_from_slice(&field.to_be_bytes());
    }
    for label in name.split('.') {
        message.push(u8::try_from(label.len()).unwrap());
        message.extend_from_slice(label.as_bytes());
    }
    message.push(0);
    kind_and_class.iter().for_each(|field| message.extend_from_slice(&field.to_be_bytes()));
    [&message, additional].concat()
}

/// An answer, read by code that shares nothing with the code under test. It panics if the message is not exactly its parts.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u8,
    pub(crate) is_authoritative: bool,
    pub(crate) is_cut: bool,
    pub(crate) question: String,
    pub(crate) answers: Vec<(u16, Vec<u8>)>,
    pub(crate) authorities: Vec<(u16, Vec<u8>)>,
    /// Size, high bits of the code, DO.
    pub(crate) edns: Option<(u16, u8, bool)>,
}

impl Answer {
    pub(crate) fn of(message: &[u8]) -> Self {
        let word = |at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
        assert!(message[2] & 0x80 != 0, "not an answer");
        let (mut at, mut question) = (12, String::new());
        if word(4) == 1 {
            let (labels, end) = name(message, at);
            (question, at) = (labels.join("."), end + 4);
        }
        let mut records = |count: u16| {
            let mut records = Vec::new();
            for _ in 0..count {
                let (_, end) = name(message, at);
                let length = usize::from(word(end + 8));
                records.push((word(end), word(end + 2), message[end + 4..end + 10 + length].to_vec()));
                at = end + 10 + length;
            }
            records
        };
        let (answers, authorities, additional) = (records(word(6)), records(word(8)), records(word(10)));
        assert_eq!(at, message.len(), "bytes behind the last record");
        let data = |records: Vec<(u16, u16, Vec<u8>)>| {
            records.into_iter().map(|(kind, _, rest)| (kind, rest[6..].to_vec())).collect()
        };
        let edns = additional.first().map(|(kind, size, rest)| {
            assert_eq!((*kind, additional.len()), (41, 1));
            (*size, rest[0], rest[2] & 0x80 != 0)
        });
        let [high, low] = [message[2], message[3]];
        let (answers, authorities) = (data(answers), data(authorities));
        Self {
            code: low & 15,
            is_authoritative: high & 4 != 0,
            is_cut: high & 2 != 0,
            question,
            answers,
            authorities,
            edns,
        }
    }
}

/// Reads a name, following pointers. Returns its labels and the offset behind it.
fn name(message: &[u8], mut at: usize) -> (Vec<String>, usize) {
    let (mut labels, mut end) = (Vec::new(), None);
    loop {
        let length = usize::from(message[at]);
        if length >= 0xc0 {
            end = end.or(Some(at + 2));
            let target = (length & 0x3f) << 8 | usize::from(message[at + 1]);
            assert!(target < at, "a pointer leads forward");
            at = target;
        } else if length == 0 {
            return (labels, end.unwrap_or(at + 1));
        } else {
            labels.push(String::from_utf8_lossy(&message[at + 1..at + 1 + length]).into_owned());
            at += 1 + length;
        }
    }
}
