//! XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03): its nonce of 24 bytes is long enough to be random. WireGuard seals cookies with it.

use zeroize::Zeroizing;

use crate::aead::{AeadKey, TAG};

/// "expand 32-byte k", ChaCha's first row (RFC 8439, section 2.3).
const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// Encrypts `data` in place and returns the tag. A nonce must be used once per key.
pub fn xseal(key: &[u8; 32], nonce: &[u8; 24], associated: &[u8], data: &mut [u8]) -> [u8; TAG] {
    let (subkey, counter) = derive(key, nonce);
    subkey.seal(counter, associated, data)
}

/// Checks and decrypts `sealed` (ciphertext and tag) in place and returns the plaintext, its beginning. Returns `None` if it was not made with this key,
/// nonce and associated data; the content of `sealed` is undefined then.
pub fn xopen<'a>(key: &[u8; 32], nonce: &[u8; 24], associated: &[u8], sealed: &'a mut [u8]) -> Option<&'a mut [u8]> {
    let (subkey, counter) = derive(key, nonce);
    subkey.open(counter, associated, sealed)
}

/// Returns subkey and nonce (section 2.3): the subkey derives from the nonce's first 16 bytes. The other 8 bytes follow four zeros, as in the nonce that
/// [`AeadKey`] makes of a counter.
fn derive(key: &[u8; 32], nonce: &[u8; 24]) -> (AeadKey, u64) {
    let [first @ .., n0, n1, n2, n3, n4, n5, n6, n7] = nonce;
    let subkey = hchacha20(key, first);
    (AeadKey::new(&subkey), u64::from_le_bytes([*n0, *n1, *n2, *n3, *n4, *n5, *n6, *n7]))
}

/// Returns HChaCha20 of key and nonce (section 2.2): the first and last row after ChaCha20's rounds, without the final addition.
fn hchacha20(key: &[u8; 32], nonce: &[u8; 16]) -> Zeroizing<[u8; 32]> {
    let mut state = Zeroizing::new([0_u32; 16]);
    state[..4].copy_from_slice(&CONSTANTS);
    let words = key.chunks_exact(4).chain(nonce.chunks_exact(4));
    for (place, word) in state[4..].iter_mut().zip(words) {
        *place = word.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte));
    }
    for _ in 0..10 {
        for column in 0..4 {
            quarter_round(&mut state, [column, 4 + column, 8 + column, 12 + column]);
        }
        for diagonal in 0..4 {
            let turned = |row: usize| 4 * row + (diagonal + row) % 4;
            quarter_round(&mut state, [turned(0), turned(1), turned(2), turned(3)]);
        }
    }
    let mut subkey = Zeroizing::new([0; 32]);
    let rows = state[..4].iter().chain(&state[12..]);
    for (place, word) in subkey.chunks_exact_mut(4).zip(rows) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    subkey
}

/// ChaCha's quarter round (RFC 8439, section 2.1).
fn quarter_round(state: &mut [u32; 16], [a, b, c, d]: [usize; 4]) {
    for (rotate_d, rotate_b) in [(16, 12), (8, 7)] {
        state[a] = state[a].wrapping_add(state[b]);
        state[d] = (state[d] ^ state[a]).rotate_left(rotate_d);
        state[c] = state[c].wrapping_add(state[d]);
        state[b] = (state[b] ^ state[c]).rotate_left(rotate_b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex<const N: usize>(text: &str) -> [u8; N] {
        assert_eq!(text.len(), 2 * N);
        std::array::from_fn(|place| u8::from_str_radix(&text[2 * place..2 * place + 2], 16).unwrap())
    }

    #[test]
    fn draft_section_2_2_1_hchacha20() {
        let key: [u8; 32] = std::array::from_fn(|place| u8::try_from(place).unwrap());
        let subkey = hchacha20(&key, &hex("000000090000004a0000000031415927"));
        assert_eq!(*subkey, hex::<32>("82413b4227b27bfed30e42508a877d73a0f9e4d58a74a853c12ec41326d3ecdc"));
    }

    #[test]
    fn draft_appendix_a_3_1_aead() {
        let key: [u8; 32] = std::array::from_fn(|place| 0x80 + u8::try_from(place).unwrap());
        let nonce: [u8; 24] = std::array::from_fn(|place| 0x40 + u8::try_from(place).unwrap());
        let associated: [u8; 12] = hex("50515253c0c1c2c3c4c5c6c7");
        let plain = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it.";
        let mut data = *plain;
        let tag = xseal(&key, &nonce, &associated, &mut data);
        assert_eq!(data[..32], hex::<32>("bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb"));
        assert_eq!(tag, hex::<16>("c0875924c1c7987947deafd8780acf49"));
        let mut sealed = [data.as_slice(), &tag].concat();
        assert_eq!(xopen(&key, &nonce, &associated, &mut sealed.clone()).unwrap(), plain);
        for place in 0..sealed.len() {
            sealed[place] ^= 1;
            assert!(xopen(&key, &nonce, &associated, &mut sealed.clone()).is_none());
            sealed[place] ^= 1;
        }
        assert!(xopen(&key, &hex(&"41".repeat(24)), &associated, &mut sealed.clone()).is_none());
        assert!(xopen(&key, &nonce, &associated[1..], &mut sealed).is_none());
    }
}
