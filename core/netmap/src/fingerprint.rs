//! Fingerprints of public keys, for people who compare them by eye.

use taut_base::PublicKey;

/// Bytes of a fingerprint, 8: nobody finds a key with the fingerprint of another one within the minutes of a request (2^64 attempts).
const BYTES: usize = 8;

/// Returns the fingerprint of a machine key or of a coordinator's key: 16 hex digits in four groups.
pub fn fingerprint(key: &PublicKey) -> String {
    let hash = taut_noise::hash(&[b"taut fingerprint v1", &key.0]);
    let pairs: Vec<String> = hash.iter().take(BYTES).map(|byte| format!("{byte:02x}")).collect();
    pairs.chunks(2).map(<[String]>::concat).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_short_and_of_one_key() {
        let (one, other) = (fingerprint(&PublicKey([1; 32])), fingerprint(&PublicKey([2; 32])));
        assert_eq!(one.len(), 19);
        assert_ne!(one, other);
        assert!(one.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-'), "{one}");
    }
}
