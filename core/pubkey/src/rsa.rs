//! Signatures by RSA (RFC 8017).

use ring::digest::Digest;

use crate::Hash;
use crate::der;
use crate::modulus::{Modulus, words, write};

/// Lengths of a key in bits. Certificate authorities may not sign shorter ones, and longer ones would let a server make a node compute for long.
const BITS: std::ops::RangeInclusive<usize> = 2_048..=8_192;

/// Returns `Some` if the signature has the padding of PKCS #1 version 1.5 and this message (section 8.2.2).
pub(crate) fn verify_pkcs1(hash: Hash, key: &[u8], message: &[u8], signature: &[u8]) -> Option<()> {
    let (opened, _) = open(key, signature)?;
    let digest = hash.of(&[message]);
    let digest = digest.as_ref();
    // The content of a valid signature is known completely, so it is made and compared. Nothing of an invalid one is parsed.
    let name = match hash {
        Hash::Sha256 => 1,
        Hash::Sha384 => 2,
        Hash::Sha512 => 3,
    };
    let len = digest.len() as u8;
    // DigestInfo (section 9.2, note 1): a sequence of the hash's name, 2.16.840.1.101.3.4.2.x, and the digest.
    let info = [0x30, 17 + len, 0x30, 13, 6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, name, 5, 0, 4, len];
    let mut expected = vec![0xff; opened.len()];
    let start = opened.len().checked_sub(info.len() + digest.len())?;
    expected[..2].copy_from_slice(&[0, 1]);
    expected[start - 1] = 0;
    expected[start..start + info.len()].copy_from_slice(&info);
    expected[start + info.len()..].copy_from_slice(digest);
    (opened == expected).then_some(())
}

/// Returns `Some` if the signature has the padding PSS and this message (sections 8.1.2 and 9.1.2). Salt and mask are as TLS has them (RFC 8446 section 4.2.3).
pub(crate) fn verify_pss(hash: Hash, key: &[u8], message: &[u8], signature: &[u8]) -> Option<()> {
    let (opened, bits) = open(key, signature)?;
    // The padding has one bit less than the modulus, so the first byte may be none of it.
    let unused = (8 * opened.len() + 1 - bits) % 8;
    let opened = if unused == 0 { opened.strip_prefix(&[0])? } else { &opened[..] };
    let digest = hash.of(&[message]);
    let len = digest.as_ref().len();
    let (rest, last) = opened.split_at_checked(opened.len().checked_sub(1)?)?;
    let (masked, seed) = rest.split_at_checked(rest.len().checked_sub(len)?)?;
    if last != [0xbc] || masked.first()? & !(0xff >> unused) != 0 {
        return None;
    }
    let mut block = masked.to_vec();
    unmask(hash, seed, &mut block);
    *block.first_mut()? &= 0xff >> unused;
    let (zeros, salt) = block.split_at_checked(block.len().checked_sub(len)?)?;
    let (one, zeros) = zeros.split_last()?;
    let is_padded = *one == 1 && zeros.iter().all(|byte| *byte == 0);
    let again: Digest = hash.of(&[&[0; 8], digest.as_ref(), salt]);
    (is_padded && again.as_ref() == seed).then_some(())
}

/// Takes the mask off (MGF1, appendix B.2.1).
fn unmask(hash: Hash, seed: &[u8], block: &mut [u8]) {
    let len = hash.of(&[]).as_ref().len();
    for (counter, part) in (0_u32..).zip(block.chunks_mut(len)) {
        let mask = hash.of(&[seed, &counter.to_be_bytes()]);
        part.iter_mut().zip(mask.as_ref()).for_each(|(byte, mask)| *byte ^= mask);
    }
}

/// Raises a signature to the power of a key's exponent (section 5.2.2). Returns the result, as long as the modulus, and the bits of the modulus.
fn open(key: &[u8], signature: &[u8]) -> Option<(Vec<u8>, usize)> {
    let [modulus, exponent] = der::integers::<2>(key)?;
    if modulus.len() > BITS.end() / 8 || exponent.len() > 4 || signature.len() != modulus.len() {
        return None;
    }
    let modulus = Modulus::new(modulus)?;
    let exponent = exponent.iter().fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte));
    let number = words(signature);
    if !BITS.contains(&modulus.bits()) || exponent < 3 || exponent % 2 == 0 || !modulus.is_above(&number) {
        return None;
    }
    let (mut base, mut spare) = (vec![0; number.len()], vec![0; number.len()]);
    modulus.enter(&mut base, &number);
    let mut power = base.clone();
    for bit in (0..exponent.ilog2()).rev() {
        modulus.multiply(&mut spare, &power, &power);
        std::mem::swap(&mut power, &mut spare);
        if exponent >> bit & 1 == 1 {
            modulus.multiply(&mut spare, &power, &base);
            std::mem::swap(&mut power, &mut spare);
        }
    }
    modulus.leave(&mut spare, &power);
    let mut opened = vec![0; signature.len()];
    write(&spare, &mut opened);
    Some((opened, modulus.bits()))
}
