//! Names that the operator chooses for a network: the base domain, records of its own, and domains whose questions go to other servers. And what a node makes of them: it
//! answers for no domain that would give the coordinator names of the whole Internet, unless its user consents (fault E17).

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use serde::Serialize;
use taut_base::{SortedMap, SortedSet};

use crate::name::{DEFAULT_BASE_DOMAIN, MAX_BASE_DOMAIN, MAX_NAME, is_base_domain};
use crate::suffixes::is_public_suffix;

/// Records of a network that a node uses, 256: with the longest names and all addresses they are 100 kB of a map, and every record outside of the network's domain is one of the 1,024 domains
/// that systemd-resolved takes for a link.
pub const MAX_RECORDS: usize = 256;
/// Addresses of a record that a node uses, 8: an answer with more does not fit every path of UDP together with its name.
pub const MAX_RECORD_ADDRESSES: usize = 8;
/// Split domains that a node uses, 64: each costs the host's resolver a comparison per question.
pub const MAX_DOMAINS: usize = 64;
/// Servers of a split domain that a node uses, 3: as many as libc asks for a name.
pub const MAX_SERVERS: usize = 3;
/// Longest domain as text (RFC 1035 section 2.3.4).
const MAX_DOMAIN: usize = 253;

/// The top-level domains whose names have a meaning of their own on hosts: the host itself and its link (RFC 6761, RFC 6762), Tor (RFC 7686), clouds and this program (`internal`),
/// and the names of addresses (`arpa`), except for `home.arpa` (RFC 8375).
pub const SPECIAL: [&str; 7] = ["alt", "arpa", "internal", "invalid", "local", "localhost", "onion"];
/// The domain for the names of a home network (RFC 8375).
const HOME: &str = "home.arpa";

/// The names that the operator of a network chose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, taut_json::Deserialize)]
pub struct Naming {
    /// The domain below which the network has its names; `None` for [`DEFAULT_BASE_DOMAIN`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_domain: Option<String>,
    /// Names besides those of nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<NameRecord>,
    /// Domains whose questions go to other servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<SplitDomain>,
}

/// A name with addresses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, taut_json::Deserialize)]
pub struct NameRecord {
    /// The name, in lower case: whole, or one label of the network's own domain. `*` instead of the first label stands for every name below the rest that has no record of its own.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

/// A domain whose questions go to other servers, through the overlay.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, taut_json::Deserialize)]
pub struct SplitDomain {
    /// The domain, in lower case; all names below it belong to it.
    pub domain: String,
    /// The servers, first choice first: members, or addresses behind a subnet router.
    pub servers: Vec<IpAddr>,
}

/// The reason why a node does not answer for a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DomainFault {
    /// It is no domain. Consent does not help.
    NoDomain,
    /// It has no address or no server, or one that cannot be the host's way to a service. Consent does not help.
    NoAddress,
    /// One label, such as `com`: all names below it.
    SingleLabel,
    /// A special-use domain, such as `local`.
    Special,
    /// A domain below which anybody registers names, such as `co.uk`.
    PublicSuffix,
}

impl DomainFault {
    /// Returns true if the user's consent lifts it.
    pub fn can_be_accepted(self) -> bool {
        !matches!(self, Self::NoDomain | Self::NoAddress)
    }
}

impl fmt::Display for DomainFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoDomain => "it is no domain name in lower case",
            Self::NoAddress => "it has no address that this node could use",
            Self::SingleLabel => "it is a single label, so it would be the way to all names below it",
            Self::Special => "hosts use names below it for purposes of their own",
            Self::PublicSuffix => "it is a public suffix: names below it belong to many owners",
        })
    }
}

/// Checks that a node may answer for a domain without its user's consent.
///
/// # Errors
/// The reason why not.
pub fn check_domain(domain: &str) -> Result<(), DomainFault> {
    if !is_domain(domain) {
        return Err(DomainFault::NoDomain);
    }
    let top = domain.rsplit('.').next().unwrap_or_default();
    let is_home = domain == HOME || is_below(domain, HOME);
    if SPECIAL.contains(&top) && !is_home {
        return Err(DomainFault::Special);
    }
    if top == domain {
        return Err(DomainFault::SingleLabel);
    }
    if is_public_suffix(domain) { Err(DomainFault::PublicSuffix) } else { Ok(()) }
}

/// Returns true if the name is below the domain.
pub fn is_below(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|front| front.ends_with('.'))
}

/// Returns true if the text is a domain in lower case: labels of letters, digits, `-` and `_`.
fn is_domain(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    let is_label =
        |label: &str| (1..=MAX_NAME).contains(&label.len()) && !label.starts_with('-') && label.bytes().all(allowed);
    // A name whose last label is a number would be an address for many programs (RFC 1123 section 2.1).
    let top = text.rsplit('.').next().unwrap_or_default();
    text.len() <= MAX_DOMAIN && text.split('.').all(is_label) && !top.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns true if a record, or a question, may lead to this address: not to the host itself, and to one host only.
fn is_usable(address: &IpAddr) -> bool {
    let is_link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.to_ipv4_mapped().is_some(),
    };
    !address.is_loopback() && !address.is_unspecified() && !address.is_multicast() && !is_link_local
}

/// The part of the operator's names that this node uses, after its limits and its user's consent were applied ([`Naming::usable`]).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct UsableNames {
    /// The domain of the nodes' names: `NETWORK.BASE`.
    pub zone: String,
    /// The records, each name once.
    pub records: Vec<NameRecord>,
    /// The split domains, each once.
    pub domains: Vec<SplitDomain>,
}

/// A domain of the coordinator that the node does not use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedDomain {
    /// The domain, or the name of a record.
    pub domain: String,
    /// The reason.
    pub fault: DomainFault,
}

impl UsableNames {
    /// Returns the domains outside of the zone that the host's resolver has to know: without those inside of others, sorted.
    pub fn outside(&self) -> Vec<String> {
        let records = self.records.iter().map(|record| record.name.strip_prefix("*.").unwrap_or(&record.name));
        let all = records.chain(self.domains.iter().map(|split| split.domain.as_str()));
        let outside: SortedSet<&str> =
            all.filter(|domain| *domain != self.zone && !is_below(domain, &self.zone)).collect();
        let is_inside = |domain: &&str| outside.iter().any(|other| is_below(domain, other));
        outside.iter().filter(|domain| !is_inside(domain)).map(|domain| String::from(*domain)).collect()
    }
}

impl Naming {
    /// Returns what a node of the network called `network` uses, and what it refuses. `accepted` are the domains that its user accepts; names below them are accepted, too. Entries beyond the limits
    /// are left out: a name is no reason to refuse a map and to lose the network.
    pub fn usable(&self, network: &str, accepted: &[String]) -> (UsableNames, Vec<RefusedDomain>) {
        let mut refused = Vec::new();
        let is_accepted = |domain: &str| accepted.iter().any(|one| one == domain || is_below(domain, one));
        let mut check = |shown: &str, domain: &str| {
            let fault = check_domain(domain).err().filter(|fault| !fault.can_be_accepted() || !is_accepted(domain));
            refused.extend(fault.map(|fault| RefusedDomain { domain: printable(shown), fault }));
            fault.is_none()
        };
        let base = self
            .base_domain
            .as_deref()
            .filter(|base| is_base_domain(base) || check(base, base) && base.len() <= MAX_BASE_DOMAIN);
        let zone = format!("{network}.{}", base.unwrap_or(DEFAULT_BASE_DOMAIN));
        let mut records = SortedMap::new();
        for record in self.records.iter().take(MAX_RECORDS) {
            let whole = whole_name(&record.name, &zone);
            let plain = whole.strip_prefix("*.").unwrap_or(&whole);
            // The zone's own name is the server's, and names in it are the network's already.
            let is_own = is_domain(plain) && (is_below(plain, &zone) || plain == zone && plain != whole);
            if is_own || check(&whole, plain) {
                records.entry(whole.into_owned()).or_insert_with(|| usable(&record.addresses, MAX_RECORD_ADDRESSES));
            }
        }
        let mut domains = SortedMap::new();
        for split in self.domains.iter().take(MAX_DOMAINS) {
            if check(&split.domain, &split.domain) {
                domains.entry(split.domain.clone()).or_insert_with(|| usable(&split.servers, MAX_SERVERS));
            }
        }
        let mut without = |domain: &str, addresses: &[IpAddr]| {
            if addresses.is_empty() {
                refused.push(RefusedDomain { domain: String::from(domain), fault: DomainFault::NoAddress });
            }
            !addresses.is_empty()
        };
        records.retain(|name, addresses| without(name, addresses));
        domains.retain(|domain, servers| without(domain, servers));
        let records = records.into_iter().map(|(name, addresses)| NameRecord { name, addresses }).collect();
        let domains = domains.into_iter().map(|(domain, servers)| SplitDomain { domain, servers }).collect();
        (UsableNames { zone, records, domains }, refused)
    }

    /// Returns true if the operator chose nothing.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Returns the whole name of a record: one label is a name in the zone.
fn whole_name<'a>(name: &'a str, zone: &str) -> Cow<'a, str> {
    if name.contains('.') { Cow::Borrowed(name) } else { Cow::Owned(format!("{name}.{zone}")) }
}

fn usable(addresses: &[IpAddr], most: usize) -> Vec<IpAddr> {
    let mut usable = Vec::new();
    for address in addresses.iter().filter(|address| is_usable(address)) {
        if usable.len() < most && !usable.contains(address) {
            usable.push(*address);
        }
    }
    usable
}

/// Returns a text of the coordinator as a terminal may show it.
fn printable(text: &str) -> String {
    text.chars().take(MAX_DOMAIN).map(|one| if one.is_ascii_graphic() { one } else { '?' }).collect()
}

#[cfg(test)]
mod tests;
