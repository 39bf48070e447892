//! What a helper takes from the daemon and from the host's files into settings and command lines. The daemon has fewer rights than its helper, and a program that
//! took it over must not get them by a line break in a name.

use super::Wanted;
use crate::settings::interface_name;

/// Longest name, as text (RFC 1035 section 2.3.4).
const LONGEST_NAME: usize = 253;
/// Longest label.
const LONGEST_LABEL: usize = 63;
/// Most domains, 1,024: the reverse zones of two prefixes are at most half of them.
const MOST_ZONES: usize = 1_024;
/// Most addresses of a stub, 8: it has one of each family.
const MOST_SERVERS: usize = 8;

/// Returns true if the text is a domain: labels of letters, digits, `-` and `_`.
pub(super) fn is_domain(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let is_label = |label: &str| {
        // Programs take a word with a hyphen in front for an option.
        (1..=LONGEST_LABEL).contains(&label.len()) && !label.starts_with('-') && label.bytes().all(allowed)
    };
    text.len() <= LONGEST_NAME && text.split('.').all(is_label)
}

/// Returns the reason why an order cannot be carried out, if there is one. Its servers are addresses, as their type says.
pub(super) fn fault(wanted: &Wanted) -> Option<String> {
    if let Err(wrong) = interface_name(&wanted.interface) {
        return Some(format!("{:?} is no interface: {wrong}", wanted.interface));
    }
    if wanted.interface.starts_with('-') {
        return Some(format!("{:?} is no interface: programs would take it for an option", wanted.interface));
    }
    let mut domains = wanted.zones.iter().chain(&wanted.shadows);
    if let Some(wrong) = domains.find(|domain| !is_domain(domain)) {
        return Some(format!("{wrong:?} is no domain"));
    }
    let is_sized = (1..=MOST_ZONES).contains(&wanted.zones.len())
        && wanted.shadows.len() <= MOST_ZONES
        && (1..=MOST_SERVERS).contains(&wanted.servers.len());
    (!is_sized).then(|| String::from("it has no domain, no server, or too many of them"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_would_be_a_line_or_an_option_of_its_own_is_refused() {
        let wanted = Wanted::for_zones(&["home.taut.internal", "64.100.in-addr.arpa"]);
        assert_eq!(fault(&wanted), None);
        for zone in [
            "",
            ".",
            "x.",
            "x.\nnameserver 192.0.2.6\n#",
            "x/\nconf-script=/tmp/x\n#",
            "x y",
            "-x",
            "x.-y",
            "ä.internal",
            &"x".repeat(64),
        ] {
            let wrong = Wanted { zones: vec![String::from("taut.internal"), String::from(zone)], ..wanted.clone() };
            assert!(fault(&wrong).is_some(), "{zone:?}");
            let wrong = Wanted { shadows: vec![String::from(zone)], ..wanted.clone() };
            assert!(fault(&wrong).is_some(), "{zone:?}");
        }
        for interface in ["", "..", "../x", "-i", "a b", "x\n", "0123456789abcdef"] {
            assert!(fault(&Wanted { interface: String::from(interface), ..wanted.clone() }).is_some(), "{interface:?}");
        }
        assert!(fault(&Wanted { zones: Vec::new(), ..wanted.clone() }).is_some());
        assert!(fault(&Wanted { servers: Vec::new(), ..wanted.clone() }).is_some());
        assert!(fault(&Wanted { servers: wanted.servers.repeat(9), ..wanted }).is_some());
        assert!(!is_domain(&["x"; 128].join(".")) && is_domain("_dmarc.Corp-1.example"));
    }
}
