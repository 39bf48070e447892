//! Explicit congestion notification through a tunnel (RFC 6040): a congestion mark that a router sets on the outer packet reaches the inner flow.
//!
//! A sent outer packet copies the inner ECN field, all four values ("normal mode", section 4.1). A received outer packet's field is combined with the inner
//! one's (section 4.2, figure 4):
//!
//! ```text
//!             outer  Not-ECT  ECT(0)   ECT(1)   CE
//! inner Not-ECT      Not-ECT  Not-ECT  Not-ECT  drop: the flow cannot be notified
//!       ECT(0)       ECT(0)   ECT(0)   ECT(1)   CE
//!       ECT(1)       ECT(1)   ECT(1)   ECT(1)   CE
//!       CE           CE       CE       CE       CE
//! ```
//!
//! The other six bits, DSCP, are not copied (the pipe model of RFC 2983, as in the kernel's WireGuard): the outer packet reveals nothing about its content.

use crate::bytes::{be16, put16, u8_at};
use crate::checksum;
use crate::ip::v4;

/// The ECN field: the two low bits of IPv4's TOS and IPv6's traffic class (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// `00`: the transport does not support ECN.
    #[default]
    NotEct,
    /// `01`: the transport supports ECN, with scalable congestion control (RFC 9331).
    Ect1,
    /// `10`: the transport supports ECN.
    Ect0,
    /// `11`: congestion experienced.
    Ce,
}

impl Ecn {
    /// Returns the ECN field of a TOS or traffic class.
    #[must_use]
    pub const fn of(traffic_class: u8) -> Self {
        match traffic_class & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// Returns the field's bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// Returns the field of a packet that was sent with `self` and whose outer packet arrived with `outer`; `None` if the packet has to be dropped.
    #[must_use]
    pub const fn decapsulated(self, outer: Self) -> Option<Self> {
        match (self, outer) {
            (Self::NotEct, Self::Ce) => None,
            (Self::Ect0 | Self::Ect1, Self::Ce) => Some(Self::Ce),
            (Self::Ect0, Self::Ect1) => Some(Self::Ect1),
            _ => Some(self),
        }
    }
}

/// The outer packet has a congestion mark, but the inner transport does not support ECN. The packet has to be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotEcnCapable;

/// Sets the ECN field of `packet`, a valid IP packet, by the outer packet's. The header checksum is updated: a wrong one stays wrong.
///
/// # Errors
/// [`NotEcnCapable`] if the packet has to be dropped. It is unchanged then.
pub fn decapsulate(packet: &mut [u8], outer: Ecn) -> Result<(), NotEcnCapable> {
    if outer == Ecn::NotEct {
        return Ok(());
    }
    let first = be16(packet, 0);
    let (is_v4, shift) = place(first);
    let inner = Ecn::of(u8_at(packet, 1) >> shift);
    let combined = inner.decapsulated(outer).ok_or(NotEcnCapable)?;
    if combined == inner {
        return Ok(());
    }
    let marked = first & !(3 << shift) | u16::from(combined.bits()) << shift;
    put16(packet, 0, marked);
    if is_v4 {
        let sum = checksum::updated(be16(packet, v4::CHECKSUM), first, marked);
        put16(packet, v4::CHECKSUM, sum);
    }
    Ok(())
}

/// Marks `packet`, a valid IP packet, as one that met congestion here. Returns false and changes nothing if its transport does not support ECN, or if it has the mark.
pub fn mark(packet: &mut [u8]) -> bool {
    let (_, shift) = place(be16(packet, 0));
    let capable = matches!(Ecn::of(u8_at(packet, 1) >> shift), Ecn::Ect0 | Ecn::Ect1);
    capable && decapsulate(packet, Ecn::Ce).is_ok()
}

/// Returns whether the packet with these first two bytes is IPv4, and the position of the field in its second byte: the TOS of IPv4 is byte 1; the traffic class of IPv6 spans bytes 0 and 1.
const fn place(first: u16) -> (bool, u8) {
    if first >> 12 == 4 { (true, 0) } else { (false, 4) }
}

#[cfg(test)]
mod tests;
