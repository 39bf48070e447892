//! Names of nodes and networks: one DNS label each, except labels that have another meaning on hosts or on the Internet.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use taut_base::NodeId;

/// Longest DNS label, 63 bytes (RFC 1035 section 2.3.4).
pub const MAX_NAME: usize = 63;

/// The base domain of a network whose operator chose none. `internal` is reserved for private use (resolution 2024.07.29.06 of ICANN's board), so no public name is below it.
pub const DEFAULT_BASE_DOMAIN: &str = "taut.internal";

/// The end of all other base domains. Other names below `internal` are in use: clouds name their machines there, and their services with the metadata of a machine.
const BELOW_DEFAULT: &str = ".taut.internal";

/// Longest base domain, 126 bytes: with the longest names of a node and of a network, 2 dots and 2 more bytes, a name has the 255 bytes of RFC 1035, section 2.3.4, at most.
pub(crate) const MAX_BASE_DOMAIN: usize = 126;

/// Name of a node whose host has no usable name.
const NAMELESS: &str = "node";

/// Names that no node may have, besides those that begin with [`RESERVED_PREFIX`]. Systems and programs look them up without a domain and trust the answer:
/// a member with such a name would receive their traffic from every host that writes `taut hosts` into `/etc/hosts`.
const RESERVED: [&str; 23] = [
    // The host itself (RFC 6761 section 6.3), as Linux distributions and macOS spell it in `/etc/hosts`.
    "localhost",
    "localhost4",
    "localhost6",
    "localdomain",
    "localdomain4",
    "localdomain6",
    "loopback",
    "broadcasthost",
    "ipv6-localhost",
    "ipv6-loopback",
    "ipv6-localnet",
    "ipv6-mcastprefix",
    "ipv6-allnodes",
    "ipv6-allrouters",
    "ipv6-allhosts",
    // Programs take their proxy or their IPv6 router from the host with this name (Web Proxy Auto-Discovery; RFC 5214 section 8.3.2).
    "wpad",
    "isatap",
    // Virtual machines take keys, and commands to run as root, from the host with this name: EC2, CloudStack and Google Cloud in cloud-init.
    "instance-data",
    "data-server",
    "metadata",
    // Software relies on these not to exist in the DNS (RFC 6761 section 6.4, RFC 6762 section 3, RFC 7686).
    "invalid",
    "local",
    "onion",
];

/// Debian's names for the loopback interface and for multicast groups (`ip6-localhost`, `ip6-allnodes`, …).
const RESERVED_PREFIX: &str = "ip6-";

/// Names that no new network may have, besides [`RESERVED`] and all two-letter names, which are country codes: `NAME.NETWORK` could be an Internet host. The
/// list prevents accidents. It is not the whole root zone, whose 1,400 names include words that suit a network.
const TOP_LEVEL: [&str; 14] = [
    // Special use (RFC 9476, RFC 3172).
    "alt", "arpa", // Where most of the web and of the mail is.
    "app", "biz", "com", "dev", "edu", "gov", "info", "int", "mil", "name", "net", "org",
];

/// Checks that `name` is a DNS label for a node: 1 to 63 lower-case letters, digits and hyphens, no hyphen at either end (RFC 1123 section 2.1). Names in a
/// map need this check only; new names need [`check_new_name`].
///
/// # Errors
/// If it is not such a label.
pub fn check_name(name: &str) -> Result<(), BadName> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let edges = !name.starts_with('-') && !name.ends_with('-');
    if name.is_empty() || name.len() > MAX_NAME || !edges || !name.bytes().all(allowed) {
        return Err(BadName::NoLabel);
    }
    Ok(())
}

/// Checks that a node may get the name: a label that is not reserved (fault E20).
///
/// # Errors
/// If it is no label, or reserved.
pub fn check_new_name(name: &str) -> Result<(), BadName> {
    check_name(name)?;
    if is_reserved(name) { Err(BadName::Reserved) } else { Ok(()) }
}

/// Checks that a network may get the name: as [`check_new_name`], and not a top-level domain, so that `NAME.NETWORK` is never an Internet host.
///
/// # Errors
/// If it may not.
pub fn check_network_name(name: &str) -> Result<(), BadName> {
    check_new_name(name)?;
    if is_top_level(name) { Err(BadName::TopLevel) } else { Ok(()) }
}

/// Returns true if the label is reserved, so that no node may have it as its name.
pub fn is_reserved(name: &str) -> bool {
    name.starts_with(RESERVED_PREFIX) || RESERVED.contains(&name)
}

fn is_top_level(network: &str) -> bool {
    let is_country = network.len() == 2 && network.bytes().all(|byte| byte.is_ascii_alphabetic());
    is_country || TOP_LEVEL.contains(&network)
}

/// Returns true if every node uses this base domain: `taut.internal`, or labels below it, no more than fit. Others need [`crate::check_domain`]: with a base such as `com`, a hostile
/// coordinator would answer for public names (fault E17).
pub fn is_base_domain(base: &str) -> bool {
    base.len() <= MAX_BASE_DOMAIN
        && (base == DEFAULT_BASE_DOMAIN || base.ends_with(BELOW_DEFAULT))
        && base.split('.').all(|label| check_name(label).is_ok())
}

/// Returns the node name closest to a host name: its first label in lower case, other characters as hyphens; `node` if nothing is left or the result is
/// reserved.
pub fn name_from_host(host: &str) -> String {
    let label = host.split('.').next().unwrap_or_default();
    let spelled: String = label
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { '-' })
        .take(MAX_NAME)
        .collect();
    match spelled.trim_matches('-') {
        "" => String::from(NAMELESS),
        reserved if is_reserved(reserved) => String::from(NAMELESS),
        trimmed => String::from(trimmed),
    }
}

/// Returns the name of node `id` for users: the name that the coordinator gave it, or `node-<id>` instead of a reserved one.
pub fn display_name(id: NodeId, name: &str) -> Cow<'_, str> {
    if is_reserved(name) { Cow::Owned(placeholder_name(id)) } else { Cow::Borrowed(name) }
}

/// Returns the name of node `id` that replaces a reserved one.
pub fn placeholder_name(id: NodeId) -> String {
    format!("{NAMELESS}-{id}")
}

/// Returns the domain of a network's nodes: the network's name, or `taut-<name>` if the name is reserved or a top-level domain. A coordinator may still have
/// such a network.
pub fn domain(network: &str) -> Cow<'_, str> {
    if is_reserved(network) || is_top_level(network) {
        Cow::Owned(format!("taut-{network}"))
    } else {
        Cow::Borrowed(network)
    }
}

/// Why a text cannot be a name of a node or network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadName {
    /// It is not a DNS label.
    NoLabel,
    /// Hosts and programs give it another meaning.
    Reserved,
    /// It is a top-level domain of the Internet.
    TopLevel,
}

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoLabel => {
                "not a name: use 1 to 63 lower-case letters, digits and hyphens, with no hyphen at the ends"
            }
            Self::Reserved => {
                "a reserved name: hosts and programs look it up for a purpose of their own, as they do `localhost`; choose another one"
            }
            Self::TopLevel => "a top-level domain: the network's nodes would have names of Internet hosts; choose another one",
        })
    }
}

impl Error for BadName {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_e10_only_labels_are_names() {
        for name in ["a", "web-1", "0", &"x".repeat(63)] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["", "-a", "a-", "A", "a.b", "..", "a b", "ä", "a\0", "😀", &"x".repeat(64)] {
            assert_eq!(check_name(name), Err(BadName::NoLabel), "{name}");
        }
    }

    #[test]
    fn every_host_gets_a_name() {
        for (host, name) in
            [("Web-1.example", "web-1"), ("", "node"), ("___", "node"), ("Büro", "b-ro"), ("😀", "node")]
        {
            assert_eq!(name_from_host(host), name);
            assert_eq!(check_name(&name_from_host(host)), Ok(()));
        }
    }

    #[test]
    fn fault_e20_names_with_another_meaning_are_reserved() {
        // Names in /etc/hosts of Debian, Red Hat, openSUSE and macOS, and names that programs look up on their own.
        for name in [
            "localhost",
            "localdomain",
            "localhost4",
            "localhost6",
            "ip6-localhost",
            "ip6-loopback",
            "ip6-localnet",
            "ip6-mcastprefix",
            "ip6-allnodes",
            "ip6-allrouters",
            "ip6-allhosts",
            "ip6-anything",
            "ipv6-allnodes",
            "broadcasthost",
            "wpad",
            "isatap",
            "instance-data",
        ] {
            assert_eq!(check_new_name(name), Err(BadName::Reserved), "{name}");
            assert_eq!(check_network_name(name), Err(BadName::Reserved), "{name}");
            assert_eq!(check_name(name), Ok(()), "{name}: a map that has it is taken");
            assert_eq!(name_from_host(name), "node");
            assert_eq!(name_from_host(&name.to_uppercase()), "node");
            assert_eq!(display_name(NodeId(7), name), "node-7");
        }
        assert_eq!(name_from_host("localhost.localdomain"), "node");
        // Usual names of hosts.
        for name in ["node", "local-1", "localhost-2", "web", "ip6", "test", "mail", "home", "gateway", "com", "de"] {
            assert_eq!(check_new_name(name), Ok(()), "{name}");
            assert_eq!(name_from_host(name), name);
            assert_eq!(display_name(NodeId(7), name), name);
        }
        assert_eq!(check_new_name("a.b"), Err(BadName::NoLabel));
    }

    #[test]
    fn fault_e20_no_network_takes_the_place_of_a_domain() {
        for name in ["com", "org", "arpa", "de", "io", "dev"] {
            assert_eq!(check_network_name(name), Err(BadName::TopLevel), "{name}");
            assert_eq!(domain(name), format!("taut-{name}"));
        }
        for name in ["default", "home", "lab", "x", "n1", "internal", "taut-com"] {
            assert_eq!(check_network_name(name), Ok(()), "{name}");
            assert_eq!(domain(name), name);
        }
        assert_eq!(domain("local"), "taut-local");
    }

    #[test]
    fn fault_e17_no_base_domain_takes_public_names() {
        for base in [DEFAULT_BASE_DOMAIN, "corp.taut.internal", "a.b.taut.internal"] {
            assert!(is_base_domain(base), "{base}");
        }
        let long = format!("{0}.{0}.taut.internal", "x".repeat(MAX_NAME));
        for base in [
            "",
            ".",
            "internal",
            ".internal",
            "com",
            "example.com",
            "internal.com",
            "Corp.taut.internal",
            "a..taut.internal",
            "corp.internal",
            "google.internal",
            "xtaut.internal",
            &long,
        ] {
            assert!(!is_base_domain(base), "{base}");
        }
    }
}
