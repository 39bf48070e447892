//! The coordinator's URL: the part of RFC 3986 that `http://` and `https://` URLs of a host need.

use std::error::Error;
use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// The URL of a coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// True if the connection uses TLS.
    pub secure: bool,
    /// Name or address; IPv6 without its brackets.
    pub host: String,
    /// TCP port; 80 or 443 unless given (RFC 9110 section 4.2).
    pub port: u16,
    /// Path in front of the control path, without a slash at the end.
    pub path: String,
}

impl Url {
    /// Returns host and port in the form of an HTTP request, IPv6 addresses in brackets.
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for Url {
    type Err = BadUrl;

    fn from_str(text: &str) -> Result<Self, BadUrl> {
        let (scheme, rest) = text.trim().split_once("://").ok_or(BadUrl::Scheme)?;
        let secure = match scheme {
            _ if scheme.eq_ignore_ascii_case("http") => false,
            _ if scheme.eq_ignore_ascii_case("https") => true,
            _ => return Err(BadUrl::Scheme),
        };
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%+,:=@".contains(&byte);
        if !path.bytes().all(plain) {
            return Err(BadUrl::Path);
        }
        let (host, port) = split_authority(authority)?;
        let port = match port {
            None => {
                if secure {
                    443
                } else {
                    80
                }
            }
            Some(digits) => port_number(digits).ok_or(BadUrl::Port)?,
        };
        Ok(Self { secure, host, port, path: String::from(path.trim_end_matches('/')) })
    }
}

fn split_authority(authority: &str) -> Result<(String, Option<&str>), BadUrl> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (address, after) = rest.split_once(']').ok_or(BadUrl::Host)?;
        let address: Ipv6Addr = address.parse().map_err(|_| BadUrl::Host)?;
        return match after.strip_prefix(':') {
            Some(port) => Ok((address.to_string(), Some(port))),
            None if after.is_empty() => Ok((address.to_string(), None)),
            None => Err(BadUrl::Host),
        };
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    // RFC 1035 section 2.3.4: a name has at most 255 bytes.
    if host.is_empty() || host.len() > 255 || !host.bytes().all(letters) {
        return Err(BadUrl::Host);
    }
    Ok((String::from(host), port))
}

/// Parses a port: digits only (`u16::from_str` also accepts a plus sign), and not zero.
fn port_number(digits: &str) -> Option<u16> {
    let digits_only = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|port| digits_only && *port != 0)
}

/// The reason why a text is not the URL of a coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadUrl {
    /// It starts with neither `http://` nor `https://`.
    Scheme,
    /// Its host is neither a name nor an address.
    Host,
    /// Its port is not a number from 1 to 65535.
    Port,
    /// Its path has a character that is not allowed in a path.
    Path,
}

impl fmt::Display for BadUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a coordinator's URL: ")?;
        f.write_str(match self {
            Self::Scheme => "it starts with neither http:// nor https://",
            Self::Host => {
                "its host is neither a name nor an address (IPv6 addresses need brackets, like http://[fd00::1]:8288)"
            }
            Self::Port => "its port is no number from 1 to 65535",
            Self::Path => "its path holds a character that does not belong there",
        })
    }
}

impl Error for BadUrl {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_urls_are_parsed() {
        for (text, secure, host, port, path, authority) in [
            ("http://10.0.0.1:8288", false, "10.0.0.1", 8288, "", "10.0.0.1:8288"),
            ("https://taut.example", true, "taut.example", 443, "", "taut.example:443"),
            ("HTTP://a/", false, "a", 80, "", "a:80"),
            ("http://[FD00::1]", false, "fd00::1", 80, "", "[fd00::1]:80"),
            ("https://[::1]:8443/vpn/", true, "::1", 8443, "/vpn", "[::1]:8443"),
            (" http://my_host-1:1/a/b \n", false, "my_host-1", 1, "/a/b", "my_host-1:1"),
        ] {
            let url: Url = text.parse().unwrap();
            assert_eq!(url, Url { secure, host: host.into(), port, path: path.into() }, "{text}");
            assert_eq!(url.authority(), authority);
        }
    }

    #[test]
    fn invalid_urls_are_refused() {
        for (text, why) in [
            ("", BadUrl::Scheme),
            ("10.0.0.1:8288", BadUrl::Scheme),
            ("ftp://a", BadUrl::Scheme),
            ("http://", BadUrl::Host),
            ("http://:80", BadUrl::Host),
            ("http://user@host", BadUrl::Host),
            ("http://a b", BadUrl::Host),
            ("http://a\r\nX: y", BadUrl::Host),
            ("http://[::1", BadUrl::Host),
            ("http://[::1]x", BadUrl::Host),
            ("http://[nonsense]", BadUrl::Host),
            ("http://fd00::1", BadUrl::Port),
            ("http://a:0", BadUrl::Port),
            ("http://a:65536", BadUrl::Port),
            ("http://a:+80", BadUrl::Port),
            ("http://a:", BadUrl::Port),
            ("http://a/?q=1", BadUrl::Path),
            ("http://a/x#y", BadUrl::Path),
            ("http://a/\r\n", BadUrl::Path),
            ("http://a?network=1", BadUrl::Path),
        ] {
            // White space at the end of a URL is ignored, so text is appended behind the CRLF of this row.
            let text = if text.ends_with('\n') { format!("{text}x") } else { String::from(text) };
            assert_eq!(text.parse::<Url>(), Err(why), "{text:?}");
        }
    }
}
