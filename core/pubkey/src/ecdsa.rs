//! Signatures by ECDSA (FIPS 186-5 section 6.4.2).

use crate::curve::Curve;
use crate::der;
use crate::field::Element;

/// Returns `Some` if the signature over what has this digest is of the owner of `key`.
pub(crate) fn verify(curve: &Curve, key: &[u8], digest: &[u8], signature: &[u8]) -> Option<()> {
    let key = curve.read(key)?;
    let [r, s] = der::integers::<2>(signature)?;
    let (r, s) = (scalar(curve, r)?, scalar(curve, s)?);
    // A digest that is longer than the order counts with its first bits. Both are whole bytes here.
    let digest = curve.order.reduce(digest.get(..curve.size).unwrap_or(digest));
    let inverse = curve.order.invert(&s);
    let [a, b] = [digest, r].map(|number| {
        let mut bytes = vec![0; curve.size];
        curve.order.write(&curve.order.multiply(&number, &inverse), &mut bytes);
        bytes
    });
    let sum = curve.combine((&curve.base, &a), (&key, &b));
    let (x, _) = curve.coordinates(&sum)?;
    let mut bytes = vec![0; curve.size];
    curve.field.write(&x, &mut bytes);
    (curve.order.reduce(&bytes) == r).then_some(())
}

/// Reads a number of a signature: neither zero nor as large as the order.
fn scalar(curve: &Curve, bytes: &[u8]) -> Option<Element> {
    let mut whole = vec![0; curve.size.checked_sub(bytes.len())?];
    whole.extend_from_slice(bytes);
    curve.order.read(&whole).filter(|number| *number != Element::ZERO)
}
