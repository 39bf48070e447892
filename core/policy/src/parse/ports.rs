//! Ports, and the split between a host and its ports.

use std::net::Ipv6Addr;

use crate::filter::ALL_PORTS;

/// Returns the ranges of `*`, `22`, `80,443`, `1000-2000` or a mixture of the last three.
///
/// # Errors
/// Says what is wrong with the text.
pub(super) fn ports(text: &str) -> Result<Vec<(u16, u16)>, String> {
    if text == "*" {
        return Ok(vec![ALL_PORTS]);
    }
    text.split(',').map(|part| range(part.trim())).collect()
}

fn range(part: &str) -> Result<(u16, u16), String> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let (first, last) = (port(first)?, port(last)?);
    if last == 0 {
        return Err(String::from("port 0 cannot be opened; write * for all ports"));
    }
    if first > last {
        return Err(format!("the port range {part} ends before it starts"));
    }
    Ok((first, last))
}

/// Returns the port that a text is.
pub(super) fn port(text: &str) -> Result<u16, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = if digits { text.parse().ok() } else { None };
    number.ok_or_else(|| format!("`{text}` is not a port; ports are numbers up to 65535"))
}

/// Splits `HOST:PORTS` at its last colon. An IPv6 address may be in brackets, before or around its prefix length: `[fd00::1]:22`, `[fd00::]/64:22`.
///
/// # Errors
/// Says what is wrong with the text.
pub(super) fn host_and_ports(text: &str) -> Result<(String, &str), String> {
    let (host, ports) = text
        .rsplit_once(':')
        .filter(|(host, ports)| !host.is_empty() && !ports.is_empty())
        .ok_or_else(|| format!("`{text}` has no ports; write HOST:PORTS, such as {text}:22 or {text}:*"))?;
    let Some(inner) = host.strip_prefix('[') else { return Ok((String::from(host), ports)) };
    let brackets = || format!("`{text}` has brackets, which belong around an IPv6 address: [fd00::1]:22");
    let (address, rest) = inner.split_once(']').ok_or_else(brackets)?;
    let (bare, length) = match address.split_once('/') {
        Some((bare, length)) if rest.is_empty() => (bare, format!("/{length}")),
        _ => (address, String::from(rest)),
    };
    if bare.parse::<Ipv6Addr>().is_err() || !(length.is_empty() || length.starts_with('/')) {
        return Err(brackets());
    }
    Ok((format!("{bare}{length}"), ports))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges() {
        assert_eq!(ports("*").unwrap(), [(0, 65535)]);
        assert_eq!(ports("22").unwrap(), [(22, 22)]);
        assert_eq!(ports("80,443, 1000-2000,65535").unwrap(), [(80, 80), (443, 443), (1000, 2000), (65535, 65535)]);
        assert_eq!(ports("0-65535").unwrap(), [(0, 65535)]);
        assert_eq!(ports("5-5").unwrap(), [(5, 5)]);
        for text in ["", "ssh", "22,", ",22", "-1", "1-", "1-2-3", "65536", "+1", "1 - 2", "99999999999999999999"] {
            assert!(ports(text).unwrap_err().contains("is not a port"), "{text}");
        }
        assert!(ports("0").unwrap_err().contains("port 0"));
        assert!(ports("0-0").unwrap_err().contains("port 0"));
        assert!(ports("9-8").unwrap_err().contains("ends before it starts"));
    }

    #[test]
    fn hosts_and_ports() {
        for (text, host, ports) in [
            ("web:22", "web", "22"),
            ("tag:web:80,443", "tag:web", "80,443"),
            ("*:*", "*", "*"),
            ("fd00::1:22", "fd00::1", "22"),
            ("fd00::/64:22", "fd00::/64", "22"),
            ("[fd00::1]:22", "fd00::1", "22"),
            ("[fd00::]/64:*", "fd00::/64", "*"),
            ("[fd00::/64]:*", "fd00::/64", "*"),
        ] {
            assert_eq!(host_and_ports(text).unwrap(), (String::from(host), ports), "{text}");
        }
        for text in ["web", ":22", "web:", ""] {
            assert!(host_and_ports(text).unwrap_err().contains("has no ports"), "{text}");
        }
        for text in ["[web]:22", "[10.0.0.1]:22", "[fd00::1:22", "[fd00::1]x:22", "[fd00::/64]/3:22", "[]:22"] {
            assert!(host_and_ports(text).unwrap_err().contains("brackets"), "{text}");
        }
    }
}
