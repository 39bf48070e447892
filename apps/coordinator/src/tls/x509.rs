//! The parts of an X.509 certificate (RFC 5280) that an operator has to know: its period of validity and its names. Everything else is left to rustls.

use std::net::IpAddr;
use std::time::Duration;

use taut_base::parse_time;

const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
/// `version` of a certificate, `[0]`.
const VERSION: u8 = 0xa0;
/// `extensions` of a certificate, `[3]`.
const EXTENSIONS: u8 = 0xa3;
/// `dNSName` of a name, `[2]`.
const DNS_NAME: u8 = 0x82;
/// `iPAddress` of a name, `[7]`.
const IP_ADDRESS: u8 = 0x87;

/// `id-ce-subjectAltName`, 2.5.29.17.
const SUBJECT_ALT_NAME: [u8; 3] = [0x55, 0x1d, 0x11];

/// The facts of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CertificateFacts {
    /// Begin and end of the period of validity, since 1970.
    pub(crate) not_before: Duration,
    pub(crate) not_after: Duration,
    /// DNS names and addresses of the server.
    pub(crate) names: Vec<String>,
}

impl CertificateFacts {
    /// Reads a certificate in DER form. Returns `None` if it is malformed.
    pub(crate) fn read(der: &[u8]) -> Option<Self> {
        let mut certificate = Der(Der(der).expect(SEQUENCE)?);
        let mut fields = Der(certificate.expect(SEQUENCE)?);
        let version_or_number = fields.next()?;
        if version_or_number.0 == VERSION {
            fields.expect(INTEGER)?;
        }
        let (_algorithm, _issuer) = (fields.expect(SEQUENCE)?, fields.expect(SEQUENCE)?);
        let mut validity = Der(fields.expect(SEQUENCE)?);
        let (not_before, not_after) = (time(validity.next()?)?, time(validity.next()?)?);
        let mut names = Vec::new();
        while let Some((tag, content)) = fields.next() {
            if tag == EXTENSIONS {
                names = names_of(content)?;
            }
        }
        Some(Self { not_before, not_after, names })
    }
}

/// Returns the names in the extensions of a certificate.
fn names_of(extensions: &[u8]) -> Option<Vec<String>> {
    let mut extensions = Der(Der(extensions).expect(SEQUENCE)?);
    while let Some((_, extension)) = extensions.next() {
        let mut extension = Der(extension);
        if extension.expect(OBJECT_IDENTIFIER)? != SUBJECT_ALT_NAME {
            continue;
        }
        let (mut tag, mut value) = extension.next()?;
        if tag == BOOLEAN {
            (tag, value) = extension.next()?;
        }
        let mut listed = Der(Der(Some(value).filter(|_| tag == OCTET_STRING)?).expect(SEQUENCE)?);
        let mut names = Vec::new();
        while let Some((tag, name)) = listed.next() {
            names.extend(match tag {
                DNS_NAME => std::str::from_utf8(name).ok().map(str::to_ascii_lowercase),
                IP_ADDRESS => address(name).map(|ip| ip.to_string()),
                _ => None,
            });
        }
        return Some(names);
    }
    Some(Vec::new())
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

/// Reads `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ` (RFC 5280 section 4.1.2.5). Times before 1970 count as 1970.
fn time((tag, text): (u8, &[u8])) -> Option<Duration> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let full = match tag {
        UTC_TIME => format!("{}{text}", if text.get(..2)?.parse::<u8>().ok()? < 50 { "20" } else { "19" }),
        GENERALIZED_TIME => String::from(text),
        _ => return None,
    };
    if full.len() != 14 || !full.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if full.as_str() < "1970" {
        return Some(Duration::ZERO);
    }
    let part = |from: usize, to: usize| full.get(from..to).unwrap_or_default();
    let (date, time) =
        ([part(0, 4), part(4, 6), part(6, 8)].join("-"), [part(8, 10), part(10, 12), part(12, 14)].join(":"));
    parse_time(&format!("{date}T{time}Z"))
}

/// Elements of a DER text (X.690) that were not read yet.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// Returns the next element: its tag and its content. Returns `None` at the end, and if it is malformed.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, first], rest) = self.0.split_first_chunk()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // A certificate has less than 16 MiB.
            0x81..=0x83 => {
                let (digits, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
                (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    /// Returns the content of the next element if it has this tag.
    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    use super::*;

    fn der(name: &str) -> Vec<u8> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/https");
        CertificateDer::from_pem_file(format!("{folder}/{name}")).unwrap().to_vec()
    }

    #[test]
    fn period_and_names_are_those_that_openssl_prints() {
        // As `openssl x509 -noout -dates -ext subjectAltName` prints.
        let good = CertificateFacts::read(&der("good.pem")).unwrap();
        assert_eq!(good.names, ["127.0.0.1", "localhost"]);
        assert!(good.not_after > parse_time("2100-01-01").unwrap(), "{good:?}");
        let expired = CertificateFacts::read(&der("expired.pem")).unwrap();
        assert!(expired.not_before < expired.not_after && expired.not_after < parse_time("2021-01-01").unwrap());
        assert_eq!(CertificateFacts::read(&der("ca.pem")).unwrap().names, [""; 0]);
    }

    #[test]
    fn times_have_two_or_four_digits_of_the_year() {
        let at = |text: &str| parse_time(text);
        assert_eq!(time((UTC_TIME, b"491231235959Z")), at("2049-12-31T23:59:59Z"));
        assert_eq!(time((UTC_TIME, b"991231235959Z")), at("1999-12-31T23:59:59Z"));
        assert_eq!(time((UTC_TIME, b"500101000000Z")), Some(Duration::ZERO));
        assert_eq!(time((GENERALIZED_TIME, b"20500101000000Z")), at("2050-01-01"));
        for wrong in [&b"20500101000000"[..], b"2050010100000Z", b"20501301000000Z", b"x0500101000000Z", b""] {
            assert_eq!(time((GENERALIZED_TIME, wrong)), None);
        }
    }

    #[test]
    fn a_certificate_that_is_cut_or_changed_anywhere_is_no_panic() {
        let whole = der("good.pem");
        for length in 0..whole.len() {
            assert_eq!(CertificateFacts::read(&whole[..length]), None, "{length}");
        }
        for place in 0..whole.len() {
            let mut changed = whole.clone();
            changed[place] ^= 0x80;
            // Must not panic.
            let _ = CertificateFacts::read(&changed);
        }
    }
}
