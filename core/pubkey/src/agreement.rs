//! Key agreement on P-256 and P-384 (NIST SP 800-56A section 5.7.1.2), as TLS has it (RFC 8446 section 7.4.2).

use zeroize::Zeroizing;

use crate::curve::{Curve, Point, p256, p384};

/// A curve for key agreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// P-256, secp256r1 in TLS.
    P256,
    /// P-384, secp384r1 in TLS.
    P384,
}

impl Group {
    fn curve(self) -> Curve {
        match self {
            Self::P256 => p256(),
            Self::P384 => p384(),
        }
    }
}

/// A secret for one key agreement.
pub struct Agreement {
    group: Group,
    secret: Zeroizing<[u8; Self::SECRET]>,
    public: Vec<u8>,
}

impl Agreement {
    /// Random bytes of a secret: as many as the larger curve has in a coordinate.
    pub const SECRET: usize = 48;

    /// Makes a secret of random bytes; the smaller curve uses the last of them. `None` for a multiple of the curve's order, which random bytes are not in practice.
    pub fn new(group: Group, random: &[u8; Self::SECRET]) -> Option<Self> {
        let (secret, curve) = (Zeroizing::new(*random), group.curve());
        let point = curve.multiply(&curve.base, last(&secret, curve.size));
        let mut public = vec![4];
        for coordinate in coordinates(&curve, &point)? {
            public.extend_from_slice(&coordinate);
        }
        Some(Self { group, secret, public })
    }

    /// Returns the point to send to the other side, without compression (SEC 1 section 2.3.3).
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// Returns what both sides have in common. `None` if the other side's point is not one of the curve.
    pub fn agree(&self, other: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let curve = self.group.curve();
        let other = curve.read(other)?;
        let [x, _] = coordinates(&curve, &curve.multiply(&other, last(&self.secret, curve.size)))?;
        Some(x)
    }
}

fn last(secret: &[u8; Agreement::SECRET], size: usize) -> &[u8] {
    &secret[Agreement::SECRET - size..]
}

fn coordinates(curve: &Curve, point: &Point) -> Option<[Zeroizing<Vec<u8>>; 2]> {
    let (x, y) = curve.coordinates(point)?;
    Some([x, y].map(|coordinate| {
        let mut bytes = Zeroizing::new(vec![0; curve.size]);
        curve.field.write(&coordinate, &mut bytes);
        bytes
    }))
}
