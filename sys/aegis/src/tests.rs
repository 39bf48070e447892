//! The RFC's vectors through every implementation of this processor, and agreement between them.

use super::*;

/// Returns all implementations that this processor can run, the portable one first.
fn implementations() -> Vec<Aegis256X4> {
    let mut found = vec![Aegis256X4(Implementation::Portable)];
    #[cfg(target_arch = "x86_64")]
    {
        found.extend(x86::has_avx2().then_some(Aegis256X4(Implementation::Avx2)));
        found.extend(x86::has_avx512().then_some(Aegis256X4(Implementation::Avx512)));
    }
    found
}

/// Returns `N` bytes that count up from `first`.
fn counting<const N: usize>(first: u8) -> [u8; N] {
    core::array::from_fn(|place| first.wrapping_add(place as u8))
}

/// Returns varied bytes.
fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|place| (place * 31 + place / 251) as u8).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|place| u8::from_str_radix(&text[place..place + 2], 16).expect("digits")).collect()
}

#[test]
fn the_vectors_of_the_rfc() {
    let (key, nonce) = (counting(0), counting(0x10));
    let text = "0405060704050607".repeat(15);
    let sealed = "bfc2085b7e8017da99b0b6d646ae4d01f4ba8f2e7dfca1d759ae48a135139b9aaac6b4f5db810d426be1fdaff4e14541\
                  53a34b11da78ed7e418ee2ee9853042e95536aecbb694cea1b16a478eb0d4d1bf6509b1ce652a45af58e0e46ffccfa2d\
                  0426e702391d2ff5813808b81748a490dd656465fed61f09";
    let vectors = [
        ("", "", "", "3b7fee6cee7bf17888ad11ed2397beb4"),
        ("0102030401020304", &text, sealed, "b63b611b13975e2f3dc3cb6c2397bfcd"),
    ];
    for aegis in implementations() {
        for (associated, plain, sealed, tag) in vectors {
            let (associated, mut data) = (unhex(associated), unhex(plain));
            let made = aegis.seal(&key, &nonce, &associated, &mut data);
            assert_eq!((data.clone(), made.to_vec()), (unhex(sealed), unhex(tag)), "{aegis:?}");
            assert!(aegis.open(&key, &nonce, &associated, &mut data, &made), "{aegis:?}");
            assert_eq!(data, unhex(plain), "{aegis:?}");
        }
    }
}

/// Covers lengths around every row and every stride, and those of long packets.
#[test]
fn all_implementations_agree() {
    let (key, nonce) = (counting(7), counting(0x61));
    let lengths = (0..=260).chain([511, 512, 513, 1_424, 8_912]);
    for (length, associated) in lengths.zip((0..=130).cycle()) {
        let (plain, associated) = (bytes(length), bytes(associated));
        let mut first = None;
        for aegis in implementations() {
            let mut data = plain.clone();
            let tag = aegis.seal(&key, &nonce, &associated, &mut data);
            let sealed = first.get_or_insert_with(|| (data.clone(), tag));
            assert!(*sealed == (data.clone(), tag), "{aegis:?} seals {length} bytes differently");
            assert!(aegis.open(&key, &nonce, &associated, &mut data, &tag), "{aegis:?} refuses {length} bytes");
            assert!(data == plain, "{aegis:?} opens {length} bytes differently");
        }
    }
}

#[test]
fn what_is_altered_is_refused_and_not_released() {
    let (key, nonce) = (counting(7), counting(0x61));
    for aegis in implementations() {
        let mut sealed = bytes(100);
        let tag = aegis.seal(&key, &nonce, b"beside", &mut sealed);
        for bit in 0..8 * (sealed.len() + TAG) {
            let (mut data, mut tag) = (sealed.clone(), tag);
            let place = bit / 8;
            let byte = data.get_mut(place).unwrap_or_else(|| &mut tag[place - sealed.len()]);
            *byte ^= 1 << (bit % 8);
            assert!(!aegis.open(&key, &nonce, b"beside", &mut data, &tag), "{aegis:?}, bit {bit}");
            assert_eq!(data, [0; 100], "{aegis:?}, bit {bit}");
        }
        let refused = |key: [u8; KEY], nonce: [u8; NONCE], associated: &[u8]| {
            !aegis.open(&key, &nonce, associated, &mut sealed.clone(), &tag)
        };
        assert!(refused(counting(8), nonce, b"beside"), "another key");
        assert!(refused(key, counting(0x62), b"beside"), "another nonce");
        assert!(refused(key, nonce, b"besides"), "other associated data");
    }
}
