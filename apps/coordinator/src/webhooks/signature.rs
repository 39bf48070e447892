//! The signature of a body, by which a server knows that it comes from this coordinator and is new.

use ring::hmac;

/// Header with the signature.
pub(crate) const SIGNATURE: &str = "Taut-Signature";

/// Returns the value of the header: `t=TIME,v1=HEX`, where HEX is HMAC-SHA256 of `TIME.BODY`. The time keeps an old request from being sent again by another party.
pub(super) fn signature(secret: &str, now: i64, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let mut context = hmac::Context::with_key(&key);
    context.update(format!("{now}.").as_bytes());
    context.update(body);
    let digits: String = context.sign().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={now},v1={digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_hmac_sha256_of_time_and_body() {
        // Computed with Python: hmac.new(b"tautwh-test", b'1764324000.{"schema":1}', "sha256").hexdigest()
        let expected = "03f5137fc7d2e45479aa7ab6518258f5efb6e26c55c0935ad148baf111d5a226";
        assert_eq!(signature("tautwh-test", 1_764_324_000, br#"{"schema":1}"#), format!("t=1764324000,v1={expected}"));
    }
}
