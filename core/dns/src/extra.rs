//! Names beyond those of nodes: the operator's records, and domains whose questions go to other servers.

use std::net::IpAddr;
use std::sync::Arc;

use crate::name::{Name, WireName};

/// The relation of a name that was asked for to the operator's records. An offset counts the bytes of the asked name, in wire format, before the part that the record is about: the record `*.apps.example` is about `apps.example`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// It has these addresses.
    Addresses(&'a [IpAddr], usize),
    /// It has no record, and a record stands for all names below it.
    Empty,
    /// It has no record, and a name below it has one.
    Above,
    /// It is below a record's name, and has none itself.
    Below(usize),
    /// No record is at, above or below it.
    Nothing,
}

/// The records, sorted by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records(Box<[(Name, Box<[IpAddr]>)]>);

impl Records {
    /// Takes records. A name that is no domain name is left out; of two records with one name the first stays.
    pub(crate) fn new<'a>(records: impl IntoIterator<Item = (&'a str, &'a [IpAddr])>) -> Self {
        let known =
            records.into_iter().filter_map(|(name, addresses)| Some((Name::from_text(name)?, addresses.into())));
        let mut all: Vec<(Name, Box<[IpAddr]>)> = known.collect();
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        all.dedup_by(|(later, _), (earlier, _)| later == earlier);
        Self(all.into())
    }

    /// Looks a name up, down from its own to the one that begins at `last`. A record of the name itself comes before one that stands for all names below a domain (`*.`), and that of the
    /// closest domain before others. A name that exists, as `exists` tells for offsets, stops the search (RFC 4592 section 3.3.1).
    pub(crate) fn find(&self, name: WireName<'_>, last: usize, exists: impl Fn(usize) -> bool) -> Found<'_> {
        if self.0.is_empty() {
            return Found::Nothing;
        }
        let lower = name.bytes().to_ascii_lowercase();
        if let Some(addresses) = self.get(&lower) {
            return Found::Addresses(addresses, 0);
        }
        if self.get(&[b"\x01*", lower.as_slice()].concat()).is_some() {
            return Found::Empty;
        }
        let is_below = |(one, _): &(Name, Box<[IpAddr]>)| WireName::of(one).offset_in(name).is_some();
        if self.0.iter().any(is_below) {
            return Found::Above;
        }
        for (at, _) in name.labels().skip(1).take_while(|(at, _)| *at <= last) {
            let Some(rest) = lower.get(at..) else { break };
            if let Some(addresses) = self.get(&[b"\x01*", rest].concat()) {
                return Found::Addresses(addresses, at);
            }
            if self.get(rest).is_some() {
                return Found::Below(at);
            }
            if exists(at) {
                break;
            }
        }
        Found::Nothing
    }

    fn get(&self, name: &[u8]) -> Option<&[IpAddr]> {
        let place = self.0.binary_search_by(|(one, _)| one.bytes().cmp(name)).ok()?;
        self.0.get(place).map(|(_, addresses)| addresses.as_ref())
    }
}

/// Domains with their servers, the longest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Domains(Box<[(Name, Arc<[IpAddr]>)]>);

impl Domains {
    /// Takes domains. One that is no domain name is left out.
    pub(crate) fn new<'a>(domains: impl IntoIterator<Item = (&'a str, &'a [IpAddr])>) -> Self {
        let known = domains.into_iter().filter_map(|(name, servers)| Some((Name::from_text(name)?, servers.into())));
        let mut all: Vec<(Name, Arc<[IpAddr]>)> = known.collect();
        all.sort_by_key(|(name, _)| std::cmp::Reverse(name.bytes().len()));
        Self(all.into())
    }

    /// Returns the servers for a name: those of the longest domain that it is at or below.
    pub(crate) fn servers(&self, name: WireName<'_>) -> Option<&Arc<[IpAddr]>> {
        self.0.iter().find(|(domain, _)| name.offset_of(domain).is_some()).map(|(_, servers)| servers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(text: &str) -> Name {
        Name::from_text(text).unwrap()
    }

    #[test]
    fn the_closest_record_counts() {
        let list: Vec<IpAddr> = (1..=4).map(|last| IpAddr::from([10, 0, 0, last])).collect();
        let one = |place: usize| &list[place..=place];
        let records = Records::new([
            ("*.corp.example", one(0)),
            ("Git.corp.example", one(1)),
            ("*.apps.corp.example", one(2)),
            ("a.b.corp.example", one(3)),
            ("git.corp.example", one(0)),
        ]);
        for (name, found) in [
            ("git.corp.example", Found::Addresses(one(1), 0)),
            ("GIT.corp.example", Found::Addresses(one(1), 0)),
            ("x.git.corp.example", Found::Below(2)),
            ("www.corp.example", Found::Addresses(one(0), 4)),
            ("x.y.corp.example", Found::Addresses(one(0), 4)),
            ("x.apps.corp.example", Found::Addresses(one(2), 2)),
            ("apps.corp.example", Found::Empty),
            ("b.corp.example", Found::Above),
            ("corp.example", Found::Empty),
            ("example", Found::Above),
            ("xcorp.example", Found::Nothing),
            ("example.org", Found::Nothing),
        ] {
            let name_ = wire(name);
            let asked = WireName::of(&name_);
            assert_eq!(records.find(asked, usize::MAX, |_| false), found, "{name}");
        }
        let asked = wire("x.nas.corp.example");
        let at_nas = |at| at == 2;
        assert_eq!(records.find(WireName::of(&asked), usize::MAX, at_nas), Found::Nothing, "`nas` exists otherwise");
    }

    #[test]
    fn the_longest_domain_counts() {
        let [one, two] = [[IpAddr::from([10, 0, 0, 1])], [IpAddr::from([10, 0, 0, 2])]];
        let domains = Domains::new([("example", &one[..]), ("corp.example", &two[..]), ("x..y", &two[..])]);
        let servers = |name: &str| domains.servers(WireName::of(&wire(name))).map(|servers| servers[0]);
        assert_eq!(servers("a.CORP.example"), Some(two[0]));
        assert_eq!(servers("corp.example"), Some(two[0]));
        assert_eq!(servers("xcorp.example"), Some(one[0]));
        assert_eq!(servers("example.org"), None);
    }
}
