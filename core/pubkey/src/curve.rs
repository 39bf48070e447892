//! The curves P-256 and P-384 (NIST SP 800-186 section 3.2.1): y² = x³ − 3x + b modulo a prime.
//!
//! Points have three coordinates (x/z, y/z), and one complete formula adds any two of them: also a point to itself, and the point at infinity, whose z is
//! zero. So nothing here has cases.

use crate::field::{Element, Field, bits, combine, hex};

/// A curve.
pub(crate) struct Curve {
    pub(crate) field: Field,
    /// Numbers modulo the order of the base point, which multiply points.
    pub(crate) order: Field,
    b: Element,
    pub(crate) base: Point,
    /// Bytes of a coordinate.
    pub(crate) size: usize,
}

/// A point of a curve.
#[derive(Clone, Copy)]
pub(crate) struct Point {
    x: Element,
    y: Element,
    z: Element,
}

/// Returns the curve P-256.
pub(crate) fn p256() -> Curve {
    Curve::new::<32>(&[
        const { hex("ffffffff00000001000000000000000000000000ffffffffffffffffffffffff") },
        const { hex("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551") },
        const { hex("5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b") },
        const { hex("6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296") },
        const { hex("4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5") },
    ])
}

/// Returns the curve P-384.
pub(crate) fn p384() -> Curve {
    Curve::new::<48>(&[
        const { hex("fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffeffffffff0000000000000000ffffffff") },
        const { hex("ffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973") },
        const { hex("b3312fa7e23ee7e4988e056be3f82d19181d9c6efe8141120314088f5013875ac656398d8a2ed19d2a85c8edd3ec2aef") },
        const { hex("aa87ca22be8b05378eb1c71ef320ad746e1d3b628ba79b9859f741e082542a385502f25dbf55296c3a545e3872760ab7") },
        const { hex("3617de4a96262c6f5d9e98bf9292dc29f8f41dbd289a147ce9da3113b5f0b8c00a60b1ce1d7e819d7a431d7c90ea0e5f") },
    ])
}

impl Curve {
    /// Takes the prime, the order, b, and the coordinates of the base point.
    fn new<const N: usize>([prime, order, b, x, y]: &[[u8; N]; 5]) -> Self {
        let field = Field::new(prime);
        let [b, x, y] = [b, x, y].map(|number| field.reduce(number));
        let base = Point { x, y, z: field.one() };
        Self { field, order: Field::new(order), b, base, size: N }
    }

    /// Reads a point without compression: 4, and both coordinates. `None` unless it is on the curve.
    pub(crate) fn read(&self, bytes: &[u8]) -> Option<Point> {
        let coordinates = bytes.strip_prefix(&[4]).filter(|rest| rest.len() == 2 * self.size)?;
        let (x, y) = coordinates.split_at(self.size);
        let field = &self.field;
        let (x, y, z) = (field.read(x)?, field.read(y)?, field.one());
        let three = field.add(&field.add(&z, &z), &z);
        let square = field.multiply(&x, &x);
        let right = field.add(&field.multiply(&field.subtract(&square, &three), &x), &self.b);
        (field.multiply(&y, &y) == right).then_some(Point { x, y, z })
    }

    /// Returns the coordinates of a point, unless it is the one at infinity.
    pub(crate) fn coordinates(&self, point: &Point) -> Option<(Element, Element)> {
        let inverse = self.field.invert(&point.z);
        let coordinates = (self.field.multiply(&point.x, &inverse), self.field.multiply(&point.y, &inverse));
        (point.z != Element::ZERO).then_some(coordinates)
    }

    /// Adds two points (Renes, Costello, Batina: "Complete addition formulas for prime order elliptic curves", 2016, section 3.2).
    pub(crate) fn add(&self, p: &Point, q: &Point) -> Point {
        let field = &self.field;
        let triple = |a: &Element| field.add(&field.add(a, a), a);
        // a·d + b·c, from the products a·c and b·d.
        let crossed = |[a, b]: [&Element; 2], [c, d]: [&Element; 2], ac: &Element, bd: &Element| {
            let product = field.multiply(&field.add(a, b), &field.add(c, d));
            field.subtract(&field.subtract(&product, ac), bd)
        };
        let [xx, yy, zz] = [(&p.x, &q.x), (&p.y, &q.y), (&p.z, &q.z)].map(|(a, b)| field.multiply(a, b));
        let xy = crossed([&p.x, &p.y], [&q.x, &q.y], &xx, &yy);
        let yz = crossed([&p.y, &p.z], [&q.y, &q.z], &yy, &zz);
        let xz = crossed([&p.x, &p.z], [&q.x, &q.z], &xx, &zz);
        let u = triple(&field.subtract(&xz, &field.multiply(&self.b, &zz)));
        let v = triple(&field.subtract(&field.subtract(&field.multiply(&self.b, &xz), &triple(&zz)), &xx));
        let w = triple(&field.subtract(&xx, &zz));
        let (less, more) = (field.subtract(&yy, &u), field.add(&yy, &u));
        Point {
            x: field.subtract(&field.multiply(&xy, &more), &field.multiply(&yz, &v)),
            y: field.add(&field.multiply(&more, &less), &field.multiply(&w, &v)),
            z: field.add(&field.multiply(&yz, &less), &field.multiply(&xy, &w)),
        }
    }

    /// Multiplies a point by a big-endian number, in a time that depends on its length alone.
    pub(crate) fn multiply(&self, point: &Point, number: &[u8]) -> Point {
        let mut product = self.infinity();
        for bit in bits(number) {
            product = self.add(&product, &product);
            let sum = self.add(&product, point);
            let Point { x, y, z } = product;
            product = Point { x: x.or(&sum.x, bit), y: y.or(&sum.y, bit), z: z.or(&sum.z, bit) };
        }
        product
    }
    /// Returns `a`·p + `b`·q; see [`combine`].
    pub(crate) fn combine(&self, p: (&Point, &[u8]), q: (&Point, &[u8])) -> Point {
        combine(|p, q| self.add(p, q), self.infinity(), p, q)
    }

    fn infinity(&self) -> Point {
        Point { x: Element::ZERO, y: self.field.one(), z: Element::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_point_is_on_its_curve_and_has_its_order() {
        for curve in [p256(), p384()] {
            let (x, y) = curve.coordinates(&curve.base).unwrap();
            let mut bytes = vec![4; 1 + 2 * curve.size];
            curve.field.write(&x, &mut bytes[1..=curve.size]);
            curve.field.write(&y, &mut bytes[1 + curve.size..]);
            assert!(curve.read(&bytes).is_some());
            let mut order = vec![0; curve.size];
            curve.order.write(&curve.order.subtract(&Element::ZERO, &curve.order.one()), &mut order);
            let opposite = curve.multiply(&curve.base, &order);
            assert!(curve.coordinates(&opposite).is_some());
            assert!(curve.coordinates(&curve.add(&opposite, &curve.base)).is_none(), "the point at infinity");
            bytes[5] ^= 1;
            assert!(curve.read(&bytes).is_none(), "not on the curve");
        }
    }
}
