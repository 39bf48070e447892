//! The client's address in the headers of a reverse proxy: `Forwarded` (RFC 7239) and `X-Forwarded-For`.
//!
//! Each proxy appends the address of its own peer on the right; addresses further left were sent by that peer and prove nothing. Therefore the right-most
//! address that is not a trusted proxy's counts, and only for a request that came from a trusted proxy (fault E19).

use std::net::{IpAddr, SocketAddr};

/// The client's address according to the headers of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardedClient {
    /// The request has neither header.
    Absent,
    /// The headers have no readable address, or disagree: a proxy sets one of the two headers and may pass the other one on from the client.
    Unclear,
    /// The right-most address that is not a trusted proxy's; the left-most one if all are.
    Client(IpAddr),
}

/// Returns the client's address according to the lines of both headers, each in the order of the request.
pub fn client<'a>(
    forwarded: impl Iterator<Item = &'a [u8]>,
    x_forwarded_for: impl Iterator<Item = &'a [u8]>,
    is_trusted: impl Fn(IpAddr) -> bool,
) -> ForwardedClient {
    let (mut standard, mut usual) = (Chain::default(), Chain::default());
    for line in forwarded {
        read_forwarded(line, &mut |hop| standard.add(hop, &is_trusted));
    }
    for line in x_forwarded_for {
        read_x_forwarded_for(line, &mut |hop| usual.add(hop, &is_trusted));
    }
    match (standard.claim(), usual.claim()) {
        (ForwardedClient::Absent, claim) | (claim, ForwardedClient::Absent) => claim,
        (one, other) if one == other => one,
        _ => ForwardedClient::Unclear,
    }
}

/// The hops of one header, from left to right. A hop without a readable address is `None`.
#[derive(Default)]
struct Chain {
    /// The left-most hop, if all hops so far are trusted.
    farthest: Option<IpAddr>,
    /// The right-most hop that is not trusted.
    client: Option<Option<IpAddr>>,
}

impl Chain {
    fn add(&mut self, hop: Option<IpAddr>, is_trusted: &impl Fn(IpAddr) -> bool) {
        match hop {
            Some(address) if is_trusted(address) => _ = self.farthest.get_or_insert(address),
            hop => self.client = Some(hop),
        }
    }

    fn claim(&self) -> ForwardedClient {
        match (self.client, self.farthest) {
            (Some(Some(address)), _) | (None, Some(address)) => ForwardedClient::Client(address),
            (Some(None), _) => ForwardedClient::Unclear,
            (None, None) => ForwardedClient::Absent,
        }
    }
}

fn read_x_forwarded_for(line: &[u8], hop: &mut impl FnMut(Option<IpAddr>)) {
    for part in line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|part| !part.is_empty()) {
        hop(address(part));
    }
}

/// Reads `for=192.0.2.1;proto=https, for="[2001:db8::1]:443"`. A line whose quotes do not end is one hop without an address.
fn read_forwarded(line: &[u8], hop: &mut impl FnMut(Option<IpAddr>)) {
    if line.iter().filter(|byte| **byte == b'"').count() % 2 != 0 || line.contains(&b'\\') {
        return hop(None);
    }
    for element in split_outside_quotes(line, b',').map(<[u8]>::trim_ascii).filter(|element| !element.is_empty()) {
        let mut found = split_outside_quotes(element, b';').filter_map(for_node);
        // An element with two `for` pairs has no readable address.
        let node = found.next().filter(|_| found.next().is_none());
        hop(node.and_then(address));
    }
}

/// Returns the value of a pair `for=…`, without quotes.
fn for_node(pair: &[u8]) -> Option<&[u8]> {
    let pair = pair.trim_ascii();
    let at = pair.iter().position(|byte| *byte == b'=')?;
    let (name, value) = (&pair[..at], &pair[at + 1..]);
    let quoted = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
    name.eq_ignore_ascii_case(b"for").then_some(quoted.unwrap_or(value))
}

/// Splits at each separator that is not between quotes.
fn split_outside_quotes(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut in_quotes = false;
    text.split(move |byte| {
        in_quotes ^= *byte == b'"';
        *byte == separator && !in_quotes
    })
}

/// Reads an address with or without a port and brackets. Returns `None` for `unknown` and for obfuscated names (RFC 7239, 6.2 and 6.3).
fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address: Option<IpAddr> = bare.parse().ok();
    let address = address.or_else(|| text.parse::<SocketAddr>().ok().map(|place| place.ip()));
    address.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines<'a>(lines: &'a [&'a str]) -> impl Iterator<Item = &'a [u8]> {
        lines.iter().map(|line| line.as_bytes())
    }

    /// Returns true for an address in 10.0.0.0/8, where the trusted proxies are.
    fn is_proxy(address: IpAddr) -> bool {
        matches!(address, IpAddr::V4(address) if address.octets()[0] == 10)
    }

    fn claimed(forwarded: &[&str], x_forwarded_for: &[&str]) -> ForwardedClient {
        client(lines(forwarded), lines(x_forwarded_for), is_proxy)
    }

    fn named(text: &str) -> ForwardedClient {
        ForwardedClient::Client(text.parse().unwrap())
    }

    #[test]
    fn addresses_are_read_in_every_notation() {
        for (text, expected) in [
            ("192.0.2.43", "192.0.2.43"),
            ("192.0.2.43:47011", "192.0.2.43"),
            ("2001:db8:cafe::17", "2001:db8:cafe::17"),
            ("[2001:db8:cafe::17]", "2001:db8:cafe::17"),
            ("[2001:db8:cafe::17]:4711", "2001:db8:cafe::17"),
            ("::ffff:192.0.2.43", "192.0.2.43"),
        ] {
            assert_eq!(claimed(&[], &[text]), named(expected), "{text}");
            assert_eq!(claimed(&[&format!("for=\"{text}\"")], &[]), named(expected), "{text}");
        }
        // The examples of RFC 7239, section 4.
        assert_eq!(claimed(&["for=192.0.2.60;proto=http;by=203.0.113.43"], &[]), named("192.0.2.60"));
        assert_eq!(claimed(&["For=\"[2001:db8:cafe::17]:4711\""], &[]), named("2001:db8:cafe::17"));
        assert_eq!(claimed(&["for=192.0.2.43, for=198.51.100.17"], &[]), named("198.51.100.17"));
    }

    #[test]
    fn fault_e19_the_right_most_address_that_is_not_a_proxys_counts() {
        assert_eq!(claimed(&[], &["1.2.3.4, 203.0.113.7"]), named("203.0.113.7"));
        assert_eq!(claimed(&[], &["1.2.3.4, 203.0.113.7, 10.0.0.2", "10.0.0.3"]), named("203.0.113.7"));
        assert_eq!(claimed(&[], &["garbage, \"", "203.0.113.7"]), named("203.0.113.7"));
        assert_eq!(claimed(&["for=\"unended", "for=203.0.113.7"], &[]), named("203.0.113.7"));
        assert_eq!(claimed(&["for=1.2.3.4", "for=203.0.113.7, for=10.0.0.2"], &[]), named("203.0.113.7"));
        assert_eq!(claimed(&[], &["10.0.0.9, 10.0.0.2"]), named("10.0.0.9"), "the farthest, where all are proxies");
    }

    #[test]
    fn fault_e19_no_readable_address_or_two_are_unclear() {
        for text in ["unknown", "_hidden", "\"_gazonk\"", "", "for", "=1.2.3.4", "1.2.3.4;for=1.2.3.4;for=1.2.3.4"] {
            assert_eq!(claimed(&[&format!("for=9.9.9.9, for={text}")], &[]), ForwardedClient::Unclear, "{text}");
        }
        for text in ["unknown", "_hidden", "1.2.3", "1.2.3.4:99999", "fe80::1%eth0", "a, \u{e9}"] {
            assert_eq!(claimed(&[], &[&format!("9.9.9.9, {text}")]), ForwardedClient::Unclear, "{text}");
        }
        assert_eq!(claimed(&["by=9.9.9.9"], &[]), ForwardedClient::Unclear);
        assert_eq!(
            claimed(&["for=\"9.9.9.9, for=203.0.113.7"], &[]),
            ForwardedClient::Unclear,
            "a quote that does not end"
        );
        assert_eq!(
            claimed(&["for=1.2.3.4"], &["203.0.113.7"]),
            ForwardedClient::Unclear,
            "one of them comes from the client"
        );
        assert_eq!(claimed(&["for=203.0.113.7"], &["203.0.113.7"]), named("203.0.113.7"));
    }

    #[test]
    fn no_header_claims_nothing() {
        assert_eq!(claimed(&[], &[]), ForwardedClient::Absent);
        assert_eq!(claimed(&[" , "], &["", ","]), ForwardedClient::Absent);
    }

    #[test]
    fn separators_between_quotes_do_not_separate() {
        assert_eq!(claimed(&["for=\"9.9.9.9\";by=\"a,b;for=1.1.1.1\""], &[]), named("9.9.9.9"));
    }
}
