//! SHA-1 (RFC 3174), which WebSocket uses as a check and not for safety. *ring*'s needs 3.6 kB, because it is made for speed.

/// Bytes of a block.
const BLOCK: usize = 64;
/// Steps of one round of a block, each with a function and a constant of its own.
const STEPS: usize = 20;

/// Returns the hash of a message.
pub(super) fn sha1(message: &[u8]) -> [u8; 20] {
    // A bit that is set, zeros up to eight bytes before the end of a block, and the length in bits (section 4).
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize((message.len() + 1 + 8).next_multiple_of(BLOCK) - 8, 0);
    padded.extend((message.len() as u64 * 8).to_be_bytes());
    let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    for block in padded.as_chunks::<BLOCK>().0 {
        add(&mut state, block);
    }
    let mut hash = [0; 20];
    for (place, word) in hash.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *place = word.to_be_bytes();
    }
    hash
}

/// Hashes one more block (section 6.2, method 2: the words of the schedule replace each other).
fn add(state: &mut [u32; 5], block: &[u8; BLOCK]) {
    let mut words = [0; 16];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    for step in 0..4 * STEPS {
        let at = |back: usize| words[(step + 16 - back) % 16];
        if step >= 16 {
            words[step % 16] = (at(3) ^ at(8) ^ at(14) ^ at(16)).rotate_left(1);
        }
        let (mixed, constant) = match step / STEPS {
            0 => ((b & c) | (!b & d), 0x5a82_7999),
            1 => (b ^ c ^ d, 0x6ed9_eba1),
            2 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6_u32),
        };
        let next = [mixed, e, words[step % 16], constant].into_iter().fold(a.rotate_left(5), u32::wrapping_add);
        (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
    }
    for (word, more) in state.iter_mut().zip([a, b, c, d, e]) {
        *word = word.wrapping_add(more);
    }
}

#[cfg(test)]
mod tests {
    use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

    use super::sha1;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn rfc_3174_section_7_3_vectors() {
        for (piece, times, expected) in [
            ("abc", 1, "a9993e364706816aba3e25717850c26c9cd0d89d"),
            ("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1, "84983e441c3bd26ebaae4aa1f95129e5e54670f1"),
            ("a", 1_000_000, "34aa973cd4c4daa4f61eeb2bdbad27316534016f"),
            (
                "0123456701234567012345670123456701234567012345670123456701234567",
                10,
                "dea356a2cddd90c7a7ecedc5ebb563934f460452",
            ),
        ] {
            assert_eq!(hex(&sha1(piece.repeat(times).as_bytes())), expected, "{piece}");
        }
    }

    #[test]
    fn hashes_of_every_length_are_those_of_ring() {
        for length in 0..300_usize {
            for salt in [0, 1, 0x80, 0xff_u8] {
                let message: Vec<u8> = (0..length).map(|at| (at * length * 7) as u8 ^ salt).collect();
                assert_eq!(&sha1(&message), digest(&SHA1_FOR_LEGACY_USE_ONLY, &message).as_ref(), "{length} bytes");
            }
        }
    }
}
