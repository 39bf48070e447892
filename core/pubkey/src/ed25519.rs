//! Signatures by Ed25519 (RFC 8032 section 5.1).
//!
//! The curve is −x² + y² = 1 + d·x²·y² modulo 2²⁵⁵ − 19. Points have four coordinates (x/z, y/z, and t = x·y/z), and one complete formula adds any two.

use crate::Hash;
use crate::field::{Element, Field, combine, hex};

const PRIME: [u8; 32] = hex("7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffed");
/// The order of the base point.
const ORDER: [u8; 32] = hex("1000000000000000000000000000000014def9dea2f79cd65812631a5cf5d3ed");
const D: [u8; 32] = hex("52036cee2b6ffe738cc740797779e89800700a4d4141d8ab75eb4dca135978a3");
/// A square root of −1.
const ROOT: [u8; 32] = hex("2b8324804fc1df0b2b4d00993dfbd7a72f431806ad2fe478c4ee1b274a0ea0b0");
/// (p + 3)/8: a number to this power is a root of its square or of its square's opposite.
const ROOT_EXPONENT: [u8; 32] = hex("0ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe");
/// The base point, as points are encoded: y is 4/5, and x is even.
const BASE: [u8; 32] = hex("5866666666666666666666666666666666666666666666666666666666666666");

#[derive(Clone, Copy)]
struct Point {
    x: Element,
    y: Element,
    z: Element,
    t: Element,
}

struct Curve {
    field: Field,
    d: Element,
}

/// Returns `Some` if the signature over `message` is of the owner of `key`.
pub(crate) fn verify(key: &[u8], message: &[u8], signature: &[u8]) -> Option<()> {
    let (commitment, response) = signature.split_at_checked(32)?;
    let field = Field::new(&PRIME);
    let curve = Curve { d: field.reduce(&D), field };
    let mut owner = curve.read(key.try_into().ok()?)?;
    let order = Field::new(&ORDER);
    let response = order.read(&reversed(response.try_into().ok()?))?;
    let mut hash = [0; 64];
    hash.copy_from_slice(Hash::Sha512.of(&[commitment, key, message]).as_ref());
    hash.reverse();
    let [mut s, mut k] = [[0; 32]; 2];
    order.write(&response, &mut s);
    order.write(&order.reduce(&hash), &mut k);
    // s·B = R + k·A, solved for R: its encoding is compared, so it needs not be decoded.
    [owner.x, owner.t] = [owner.x, owner.t].map(|number| curve.field.subtract(&Element::ZERO, &number));
    let one = curve.field.one();
    let zero = Point { x: Element::ZERO, y: one, z: one, t: Element::ZERO };
    let sum = combine(|p, q| curve.add(p, q), zero, (&curve.read(&BASE)?, &s), (&owner, &k));
    (curve.write(&sum) == commitment).then_some(())
}

impl Curve {
    /// Decodes a point (section 5.1.3): y, the lowest byte first, and the lowest bit of x on top.
    fn read(&self, bytes: &[u8; 32]) -> Option<Point> {
        let field = &self.field;
        let mut y = reversed(bytes);
        let is_odd = y[0] >> 7;
        y[0] &= 0x7f;
        let (y, one) = (field.read(&y)?, field.one());
        let square = field.multiply(&y, &y);
        let below = field.add(&field.multiply(&self.d, &square), &one);
        let square = field.multiply(&field.subtract(&square, &one), &field.invert(&below));
        let root = field.power(&square, &ROOT_EXPONENT);
        let is_root = |x: &Element| field.multiply(x, x) == square;
        let x = [root, field.multiply(&root, &field.reduce(&ROOT))].into_iter().find(is_root)?;
        let x = if self.lowest(&x) == is_odd { x } else { field.subtract(&Element::ZERO, &x) };
        // Zero has no odd opposite.
        (self.lowest(&x) == is_odd).then(|| Point { x, y, z: one, t: field.multiply(&x, &y) })
    }

    /// Encodes a point (section 5.1.2).
    fn write(&self, point: &Point) -> [u8; 32] {
        let inverse = self.field.invert(&point.z);
        let mut bytes = [0; 32];
        self.field.write(&self.field.multiply(&point.y, &inverse), &mut bytes);
        bytes[0] |= self.lowest(&self.field.multiply(&point.x, &inverse)) << 7;
        reversed(&bytes)
    }

    fn lowest(&self, number: &Element) -> u8 {
        let mut byte = [0];
        self.field.write(number, &mut byte);
        byte[0] & 1
    }

    /// Adds two points (section 5.1.4).
    fn add(&self, p: &Point, q: &Point) -> Point {
        let field = &self.field;
        let twice = |a: &Element| field.add(a, a);
        let a = field.multiply(&field.subtract(&p.y, &p.x), &field.subtract(&q.y, &q.x));
        let b = field.multiply(&field.add(&p.y, &p.x), &field.add(&q.y, &q.x));
        let c = twice(&field.multiply(&field.multiply(&p.t, &q.t), &self.d));
        let d = twice(&field.multiply(&p.z, &q.z));
        let (e, f, g, h) = (field.subtract(&b, &a), field.subtract(&d, &c), field.add(&d, &c), field.add(&b, &a));
        Point {
            x: field.multiply(&e, &f),
            y: field.multiply(&g, &h),
            z: field.multiply(&f, &g),
            t: field.multiply(&e, &h),
        }
    }
}

/// Returns bytes in the opposite order.
fn reversed(bytes: &[u8; 32]) -> [u8; 32] {
    let mut bytes = *bytes;
    bytes.reverse();
    bytes
}
