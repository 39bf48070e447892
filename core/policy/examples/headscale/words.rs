//! The words of random policies: few, so that rules, nodes and packets meet.

use std::net::IpAddr;

use taut_testkit::Seeded;

pub(crate) const USERS: [&str; 5] = ["ann@example.com", "bob@example.com", "cat@other.org", "eve", "fay@example.com"];

/// Logins as policies write them. One is nobody's, and one differs from a person's by case.
const LOGINS: [&str; 7] = [
    "ann@example.com",
    "bob@example.com",
    "cat@other.org",
    "eve@",
    "fay@example.com",
    "gil@example.com",
    "Ann@example.com",
];

pub(crate) const GROUPS: [&str; 3] = ["group:a", "group:b", "group:none"];

pub(crate) const TAGS: [&str; 4] = ["tag:web", "tag:db", "tag:exit", "tag:none"];

/// Tags of nodes. The policy does not define the last one any more.
pub(crate) const NODE_TAGS: [&str; 4] = ["tag:web", "tag:db", "tag:exit", "tag:gone"];

/// Addresses with names; some have bits behind their prefix.
pub(crate) const HOSTS: [(&str, &str); 5] = [
    ("one", "100.64.0.1"),
    ("lan", "10.33.7.9/16"),
    ("six", "fd7a:115c:a1e0::2"),
    ("wide", "fd7a:115c:a1e0::9/112"),
    ("far", "8.8.0.0/16"),
];

const PREFIXES: [&str; 20] = [
    "100.64.0.1",
    "100.64.0.3/32",
    "100.64.0.0/30",
    "100.64.1.9/28",
    "10.0.0.0/8",
    "10.33.1.7/24",
    "192.168.0.0/16",
    "8.8.8.0/24",
    "8.8.8.8",
    "1.0.0.0/8",
    "0.0.0.0/0",
    "0.0.0.0/1",
    "fd7a:115c:a1e0::1",
    "fd7a:115c:a1e0::/126",
    "fd7a:115c:a1e0::3/128",
    "fd12::/64",
    "2001:db8::/32",
    "2606:4700::1",
    "::/0",
    "8000::/1",
];

pub(crate) const ROUTES: [&str; 9] = [
    "10.0.0.0/8",
    "10.33.0.0/16",
    "192.168.1.0/24",
    "0.0.0.0/0",
    "::/0",
    "fd12::/48",
    "100.64.1.0/29",
    "172.16.0.0/12",
    "8.8.8.0/25",
];

pub(crate) const PORTS: [&str; 11] =
    ["*", "*", "22", "80,443", "1000-2000", "0-65535", "1-65535", "0-79,80-65535", "443", "20-30,25-90", "0-22"];

/// Protocols of `acls`.
pub(crate) const PROTOCOLS: [&str; 14] =
    ["", "", "", "", "tcp", "udp", "sctp", "icmp", "47", "gre", "ipv6-icmp", "6", "58", "ip-in-ip"];

/// Entries of `ip` in `grants`.
pub(crate) const SERVICES: [&str; 18] = [
    "*",
    "*",
    "22",
    "80-443",
    "80,443",
    "tcp:22",
    "tcp:*",
    "udp:53",
    "icmp:*",
    "sctp:5-10",
    "gre:*",
    "ipv6-icmp:*",
    "udp:0-65534",
    "132:*",
    "6:443",
    "2:*",
    "tcp:0-65535",
    "0-65535",
];

/// Protocols of packets.
pub(crate) const PACKET_PROTOCOLS: [u8; 11] = [6, 6, 17, 17, 1, 58, 132, 47, 2, 4, 253];

pub(crate) const PACKET_PORTS: [u16; 13] = [0, 1, 22, 25, 53, 79, 80, 443, 1000, 1500, 2001, 65_534, 65_535];

/// Addresses that belong to no node.
pub(crate) const ADDRESSES: [&str; 24] = [
    "10.33.0.1",
    "10.33.1.5",
    "10.33.7.9",
    "10.200.0.1",
    "192.168.1.7",
    "192.168.2.7",
    "8.8.8.8",
    "8.8.8.200",
    "8.8.4.4",
    "1.1.1.1",
    "200.1.1.1",
    "100.64.1.1",
    "100.64.0.77",
    "172.20.0.1",
    "100.127.0.1",
    "fd12::1",
    "fd12:0:0:1::1",
    "2001:db8::1",
    "2606:4700::1",
    "fd7a:115c:a1e0::77",
    "fd7a:115c:a1e0:1::1",
    "fd00::1",
    "224.0.0.9",
    "250.1.1.1",
];

/// Rules of `acls` with one mistake each: source, destination with ports, protocol.
pub(crate) const ACL_MISTAKES: [(&str, &str, &str); 24] = [
    ("group:lost", "*:22", ""),
    ("tag:lost", "*:22", ""),
    ("lost", "*:22", ""),
    ("autogroup:lost", "*:22", ""),
    ("autogroup:internet", "*:22", ""),
    ("autogroup:self", "*:22", ""),
    ("*", "group:lost:22", ""),
    ("*", "tag:lost:22", ""),
    ("*", "lost:22", ""),
    ("*", "autogroup:danger-all:22", ""),
    ("*", "*", ""),
    ("*", "*:0", ""),
    ("*", "*:9-8", ""),
    ("*", "*:65536", ""),
    ("*", "*:ssh", ""),
    ("*", "*:22,", ""),
    ("*", "*:22", "icmp"),
    ("*", "*:*", "any"),
    ("*", "*:*", "0"),
    ("*", "*:*", "256"),
    ("*", "[100.64.0.1]:22", ""),
    ("tag:web", "autogroup:self:*", ""),
    ("autogroup:tagged", "autogroup:self:*", ""),
    ("one", "autogroup:self:*", ""),
];

/// Rules of `grants` with one mistake each: source, destination, services.
pub(crate) const GRANT_MISTAKES: [(&str, &str, &str); 18] = [
    ("group:lost", "*", "*"),
    ("tag:lost", "*", "*"),
    ("lost", "*", "*"),
    ("autogroup:internet", "*", "*"),
    ("*", "tag:lost", "*"),
    ("*", "autogroup:danger-all", "*"),
    ("*", "0.0.0.0/0", "*"),
    ("*", "::/0", "*"),
    ("*", "autogroup:self", "*"),
    ("tag:web", "autogroup:self", "*"),
    ("*", "*", ""),
    ("*", "*", "0"),
    ("*", "*", "9-8"),
    ("*", "*", "tcp"),
    ("*", "*", "22:tcp"),
    ("*", "*", "256:*"),
    ("*", "*", "*:22"),
    ("*", "*", "tcp:22:23"),
];

pub(crate) fn pick<'a>(random: &mut Seeded, from: &[&'a str]) -> &'a str {
    from[random.index(from.len())]
}

pub(crate) fn chance(random: &mut Seeded, one_in: usize) -> bool {
    random.index(one_in) == 0
}

/// Returns up to three words; now and then none.
pub(crate) fn several(random: &mut Seeded, mut one: impl FnMut(&mut Seeded) -> String) -> Vec<String> {
    let count = if chance(random, 20) { 0 } else { 1 + random.index(3) };
    (0..count).map(|_| one(random)).collect()
}

/// Returns the logins of a group.
pub(crate) fn members(random: &mut Seeded) -> Vec<String> {
    (0..random.index(4)).map(|_| String::from(pick(random, &LOGINS))).collect()
}

/// Returns true if ports may be named for this protocol.
pub(crate) fn has_ports(proto: &str) -> bool {
    matches!(proto, "" | "tcp" | "udp" | "sctp" | "6")
}

/// Returns a word that both sides of a rule may have.
fn word(random: &mut Seeded) -> String {
    String::from(match random.index(9) {
        0 => pick(random, &LOGINS),
        1 | 2 => pick(random, &GROUPS),
        3 | 4 => pick(random, &TAGS),
        5 => pick(random, &["autogroup:member", "autogroup:tagged"]),
        6 => HOSTS[random.index(HOSTS.len())].0,
        7 => pick(random, &PREFIXES),
        _ => "*",
    })
}

/// Returns a source.
pub(crate) fn source(random: &mut Seeded) -> String {
    if chance(random, 16) { String::from("autogroup:danger-all") } else { word(random) }
}

/// Returns a source of a rule to `autogroup:self`. `any`: also `*`, which only `acls` allow there.
pub(crate) fn person(random: &mut Seeded, any: bool) -> String {
    String::from(match random.index(if any { 4 } else { 3 }) {
        0 => pick(random, &LOGINS),
        1 => pick(random, &GROUPS),
        2 => "autogroup:member",
        _ => "*",
    })
}

/// Returns a destination.
pub(crate) fn destination(random: &mut Seeded, to_self: bool) -> String {
    match random.index(6) {
        0 if to_self => String::from("autogroup:self"),
        1 => String::from("autogroup:internet"),
        _ => word(random),
    }
}

/// Returns a destination as `acls` write it before the ports: mostly with brackets around an IPv6 address.
pub(crate) fn bracketed(random: &mut Seeded, host: &str) -> String {
    let (address, length) =
        host.split_once('/').map_or((host, String::new()), |(address, bits)| (address, format!("/{bits}")));
    if address.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6()) && !chance(random, 4) {
        return format!("[{address}]{length}");
    }
    String::from(host)
}
