//! Discovery of a UPnP gateway (UPnP Device Architecture, section 1.3): a search by UDP, and replies with the URL of the description.

use std::net::{Ipv4Addr, SocketAddrV4};

use crate::url::Url;

/// The multicast group of all UPnP devices.
pub const GROUP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(239, 255, 255, 250), PORT);

/// The UDP port of a search, also of one to a single host.
pub const PORT: u16 = 1900;

/// Longest reply in bytes that is read; real replies have some 400 bytes.
pub const MAX_LEN: usize = 2_048;

/// Search targets. Devices of version 2 should answer to version 1, too.
pub const TARGETS: [&str; 2] =
    ["urn:schemas-upnp-org:device:InternetGatewayDevice:1", "urn:schemas-upnp-org:device:InternetGatewayDevice:2"];

/// Longest text of a gateway that is shown, in characters.
const MAX_SHOWN: usize = 64;

/// Returns a search for `target` that asks for replies within a second.
pub fn search(target: &str) -> String {
    format!("M-SEARCH * HTTP/1.1\r\nHOST: {GROUP}\r\nMAN: \"ssdp:discover\"\r\nMX: 1\r\nST: {target}\r\n\r\n")
}

/// A device that replied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The URL of its description.
    pub location: Url,
    /// The name that it gives itself: printable and short.
    pub server: String,
}

/// Reads a reply. Returns `None` if it is not one, or its URL may not be fetched.
pub fn parse(bytes: &[u8]) -> Option<Found> {
    let text = std::str::from_utf8(bytes.get(..bytes.len().min(MAX_LEN))?).ok()?;
    let mut lines = text.split("\r\n");
    let status = lines.next()?;
    let code = status.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1));
    if code != Some("200") {
        return None;
    }
    let (mut location, mut server) = (None, String::new());
    for (name, value) in lines.take_while(|line| !line.is_empty()).filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("location") && location.is_none() {
            location = Url::parse(value.trim());
        } else if name.eq_ignore_ascii_case("server") {
            server = shown(value.trim());
        }
    }
    location.map(|location| Found { location, server })
}

/// Returns a text from outside in a form that may be shown: printable ASCII, cut short (fault E16).
pub(crate) fn shown(text: &str) -> String {
    text.chars().filter(|character| matches!(character, ' '..='~')).take(MAX_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_names_the_description() {
        let reply = b"HTTP/1.1 200 OK\r\nCACHE-CONTROL: max-age=120\r\nST: urn:x\r\nServer: Debian UPnP/1.1\r\n\
            location: http://10.0.0.1:5000/rootDesc.xml\r\n\r\nLOCATION: http://9.9.9.9/";
        let found = parse(reply).unwrap();
        assert_eq!(found.location, Url::parse("http://10.0.0.1:5000/rootDesc.xml").unwrap());
        assert_eq!(found.server, "Debian UPnP/1.1");
    }

    #[test]
    fn other_messages_are_no_replies() {
        for text in [
            "",
            "HTTP/1.1 404 OK\r\nLOCATION: http://10.0.0.1/\r\n\r\n",
            "NOTIFY * HTTP/1.1\r\nLOCATION: http://10.0.0.1/\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\nLOCATION: http://10.0.0.1/",
            "HTTP/1.1 200 OK\r\nLOCATION: https://10.0.0.1/\r\n\r\n",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(&[0xff; 3_000]), None);
    }

    #[test]
    fn fault_d15_a_name_with_line_ends_is_shown_without() {
        let text = format!("a\u{1b}[31m\u{7}{}", "b".repeat(500));
        assert_eq!(shown(&text), format!("a[31m{}", "b".repeat(MAX_SHOWN - 5)));
    }
}
