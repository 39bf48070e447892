//! Published test vectors for the linked primitives: X25519 (RFC 7748) and ChaCha20-Poly1305 (RFC 8439), through this crate's own functions.

use taut_base::PrivateKey;
use taut_noise::{AeadKey, dh, public_key};

fn hex<const N: usize>(text: &str) -> [u8; N] {
    assert_eq!(text.len(), 2 * N);
    std::array::from_fn(|place| u8::from_str_radix(&text[2 * place..2 * place + 2], 16).expect("hex digits"))
}

#[test]
fn rfc_7748_section_6_1_agreement() {
    let alice = PrivateKey::from_bytes(hex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"));
    let bob = PrivateKey::from_bytes(hex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"));
    let alice_public = hex::<32>("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
    let bob_public = hex::<32>("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f");
    assert_eq!(public_key(&alice).as_bytes(), &alice_public);
    assert_eq!(public_key(&bob).as_bytes(), &bob_public);
    let shared = hex::<32>("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742");
    assert_eq!(*dh(&alice, &public_key(&bob)).unwrap(), shared);
    assert_eq!(*dh(&bob, &public_key(&alice)).unwrap(), shared);
}

/// The only vector of RFC 8439 whose nonce begins with four zeros, as WireGuard's nonces do.
#[test]
fn rfc_8439_appendix_a_5_aead() {
    let key = AeadKey::new(&hex("1c9240a5eb55d38af333888604f6b5f0473917c1402b80099dca5cbc207075c0"));
    let counter = u64::from_le_bytes(hex("0102030405060708"));
    let associated = hex::<12>("f33388860000000000004e91");
    let plain = "Internet-Drafts are draft documents valid for a maximum of six months and may be updated, replaced, or obsoleted by \
                 other documents at any time. It is inappropriate to use Internet-Drafts as reference material or to cite them other \
                 than as /\u{201c}work in progress./\u{201d}"
        .as_bytes();
    assert_eq!(plain.len(), 265);
    let mut data = plain.to_vec();
    let tag = key.seal(counter, &associated, &mut data);
    assert_eq!(data[..16], hex::<16>("64a0861575861af460f062c79be643bd"));
    assert_eq!(tag, hex::<16>("eead9d67890cbb22392336fea1851f38"));
    data.extend(tag);
    assert_eq!(key.open(counter, &associated, &mut data).unwrap(), plain);
}
