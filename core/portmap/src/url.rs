//! URLs of a gateway: plain http, a numeric IPv4 address, a path.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Longest path that is accepted; real paths have some twenty characters.
const MAX_PATH: usize = 256;

/// The place of a page on the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Address and port; never port 0.
    pub place: SocketAddrV4,
    /// The path with its query. It begins with a slash and is printable ASCII without spaces, so that it cannot end a line of a request.
    pub path: String,
}

impl Url {
    /// Reads an absolute URL. Returns `None` if it is not http, its host is not an IPv4 address, or its path is not acceptable.
    pub fn parse(text: &str) -> Option<Self> {
        let scheme = text.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://"))?;
        let rest = &text[scheme.len()..];
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (address, port) = host.split_once(':').unwrap_or((host, "80"));
        let address: Ipv4Addr = address.parse().ok()?;
        let port = port.parse().ok().filter(|port| *port != 0)?;
        let path = if path.is_empty() { "/" } else { path };
        is_clean(path).then(|| Self { place: SocketAddrV4::new(address, port), path: path.to_owned() })
    }

    /// Returns the URL that `reference` on this page refers to.
    pub fn join(&self, reference: &str) -> Option<Self> {
        if reference.contains("://") {
            return Self::parse(reference);
        }
        let path = if reference.starts_with('/') {
            reference.to_owned()
        } else {
            let plain = self.path.split('?').next().unwrap_or("/");
            let folder = plain.rfind('/').map_or("/", |end| &plain[..=end]);
            format!("{folder}{reference}")
        };
        is_clean(&path).then_some(Self { place: self.place, path })
    }
}

fn is_clean(path: &str) -> bool {
    path.len() <= MAX_PATH && path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic())
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.place, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_gateways_write() {
        let url = Url::parse("http://192.168.1.1:5000/rootDesc.xml").unwrap();
        assert_eq!((url.place, url.path.as_str()), ("192.168.1.1:5000".parse().unwrap(), "/rootDesc.xml"));
        assert_eq!(Url::parse("HTTP://10.0.0.1").unwrap().to_string(), "http://10.0.0.1:80/");
        let joined = |reference| url.join(reference).map(|url| url.to_string());
        assert_eq!(joined("/ctl/IPConn").as_deref(), Some("http://192.168.1.1:5000/ctl/IPConn"));
        assert_eq!(joined("ctl").as_deref(), Some("http://192.168.1.1:5000/ctl"));
        assert_eq!(joined("http://192.168.1.1:80/c").as_deref(), Some("http://192.168.1.1:80/c"));
    }

    #[test]
    fn fault_d15_ambiguous_urls_are_rejected() {
        for text in [
            "https://192.168.1.1/",
            "http://router.local/",
            "http://[::1]/",
            "http://192.168.1.1:0/",
            "http://192.168.1.1:99999/",
            "http://192.168.1.1@10.0.0.1/",
            "http://0x7f.1/",
            "http://2130706433/",
            "http://192.168.1.1/a b",
            "http://192.168.1.1/a\r\nHost: other",
            "file:///etc/passwd",
            "",
            "http:/€",
        ] {
            assert_eq!(Url::parse(text), None, "{text}");
        }
        assert_eq!(Url::parse(&format!("http://192.168.1.1/{}", "a".repeat(MAX_PATH))), None);
        let page = Url::parse("http://192.168.1.1/").unwrap();
        assert_eq!(page.join("/a\r\nX: y"), None);
        assert_eq!(page.join("ftp://192.168.1.1/"), None);
    }
}
