//! One-time codes (RFC 6238 with SHA-1, 6 digits and steps of 30 s, which every authenticator knows), and recovery codes. Pure.

use ring::hmac;
use subtle::ConstantTimeEq;

/// Length of a step, 30 s.
const STEP: i64 = 30;

/// Steps by which the clocks of an authenticator and of this host may differ, 1: RFC 6238 section 5.2 recommends at most one.
const SKEW: i64 = 1;

/// Letters of base32 (RFC 4648), in which authenticators take secrets.
const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Recovery codes of a person, 10.
pub(super) const RECOVERY_CODES: usize = 10;

/// Returns the step of a time in seconds since 1970.
fn step(now: i64) -> i64 {
    now.div_euclid(STEP)
}

/// Returns the code of a step.
fn code(secret: &[u8; 20], step: i64) -> u32 {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret);
    let tag = hmac::sign(&key, &step.to_be_bytes());
    let bytes = tag.as_ref();
    // Dynamic truncation (RFC 4226 section 5.3).
    let offset = usize::from(bytes.last().copied().unwrap_or(0) & 0x0f);
    let four = bytes.get(offset..offset + 4).and_then(|four| four.try_into().ok()).unwrap_or([0; 4]);
    (u32::from_be_bytes(four) & 0x7fff_ffff) % 1_000_000
}

/// Returns the step of a typed code that is valid now and later than `used`. Compares with each step in constant time.
pub(super) fn check(secret: &[u8; 20], typed: &str, used: i64, now: i64) -> Option<i64> {
    let typed: String = typed.chars().filter(|letter| !letter.is_whitespace()).collect();
    let mut found = None;
    for step in step(now) - SKEW..=step(now) + SKEW {
        let is_equal: bool = format!("{:06}", code(secret, step)).as_bytes().ct_eq(typed.as_bytes()).into();
        if is_equal && step > used {
            found = Some(step);
        }
    }
    found
}

/// Returns bytes in base32 without padding.
pub(super) fn base32(bytes: &[u8]) -> String {
    let mut text = String::new();
    let (mut buffer, mut bits) = (0_u32, 0);
    for byte in bytes {
        buffer = (buffer << 8) | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(char::from(LETTERS[(buffer >> bits & 31) as usize]));
        }
    }
    if bits > 0 {
        text.push(char::from(LETTERS[(buffer << (5 - bits) & 31) as usize]));
    }
    text
}

/// Returns the `otpauth:` URI of a secret, for a QR code.
pub(super) fn uri(secret: &[u8; 20], name: &str) -> String {
    let name: String = name
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => String::from(char::from(byte)),
            other => format!("%{other:02X}"),
        })
        .collect();
    format!("otpauth://totp/Taut:{name}?secret={}&issuer=Taut", base32(secret))
}

/// Returns a recovery code of 80 random bits, such as `ABCD-EFGH-IJKL-MNOP`.
pub(super) fn recovery_code(random: [u8; 10]) -> String {
    let text = base32(&random);
    let groups: Vec<&str> = (0..4).filter_map(|group| text.get(group * 4..group * 4 + 4)).collect();
    groups.join("-")
}

/// Returns the hash of a typed recovery code, whose case and hyphens do not matter; `None` if it cannot be one.
pub(super) fn recovery_hash(typed: &str) -> Option<[u8; 32]> {
    let bare: String = typed.chars().filter(|letter| *letter != '-' && !letter.is_whitespace()).collect();
    let bare = bare.to_ascii_uppercase();
    let is_code = bare.len() == 16 && bare.bytes().all(|byte| LETTERS.contains(&byte));
    is_code.then(|| taut_noise::hash(&[b"taut recovery code", bare.as_bytes()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The secret of RFC 6238 appendix B.
    const SECRET: &[u8; 20] = b"12345678901234567890";

    #[test]
    fn codes_are_those_of_rfc_6238() {
        for (time, expected) in
            [(59, 287_082), (1_111_111_109, 81_804), (1_234_567_890, 5_924), (2_000_000_000, 279_037)]
        {
            assert_eq!(code(SECRET, step(time)), expected, "{time}");
        }
        assert_eq!(code(SECRET, step(20_000_000_000)), 353_130, "after 2038 (fault M7)");
    }

    #[test]
    fn fault_e13_a_code_is_valid_once_and_for_about_a_minute() {
        let now = 1_111_111_109;
        let typed = format!("{:06}", code(SECRET, step(now)));
        let used = check(SECRET, &typed, 0, now).unwrap();
        assert_eq!(check(SECRET, &typed, used, now), None, "replayed");
        assert_eq!(check(SECRET, &typed, used, now + 30), None, "replayed in the next step");
        for late in [-30, 30] {
            assert_eq!(check(SECRET, &typed, 0, now + late), Some(used), "clocks may differ by a step");
        }
        for late in [-61, 61] {
            assert_eq!(check(SECRET, &typed, 0, now + late), None);
        }
        for wrong in ["", "0", "000000", "0818041", "８１８０４"] {
            assert_eq!(check(SECRET, wrong, 0, now), None, "{wrong}");
        }
        assert_eq!(check(SECRET, "081 804", 0, now), Some(used), "as authenticators show it");
    }

    #[test]
    fn base32_is_that_of_rfc_4648() {
        for (bytes, text) in [("f", "MY"), ("fo", "MZXQ"), ("foo", "MZXW6"), ("foobar", "MZXW6YTBOI")] {
            assert_eq!(base32(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn recovery_codes_are_recognized_as_people_type_them() {
        let code = recovery_code([0xa5; 10]);
        assert_eq!(code.len(), 19);
        let hash = recovery_hash(&code).unwrap();
        assert_eq!(recovery_hash(&code.to_lowercase().replace('-', " ")), Some(hash));
        for wrong in ["", "123456", "ABCD-EFGH-IJKL-MNO1", "ABCD-EFGH-IJKL-MNOPQ"] {
            assert_eq!(recovery_hash(wrong), None, "{wrong}");
        }
    }
}
