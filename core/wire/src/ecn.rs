//! Explicit congestion notification through a tunnel (RFC 6040): a router that marks the outer packet instead of dropping it is heard by the inner
//! flow.
//!
//! On the way out the outer packet takes the inner one's field, all four values ("normal mode", section 4.1). On the way in both are joined
//! (section 4.2, figure 4):
//!
//! ```text
//!             outer  Not-ECT  ECT(0)   ECT(1)   CE
//! inner Not-ECT      Not-ECT  Not-ECT  Not-ECT  drop: the flow would never hear of it
//!       ECT(0)       ECT(0)   ECT(0)   ECT(1)   CE
//!       ECT(1)       ECT(1)   ECT(1)   ECT(1)   CE
//!       CE           CE       CE       CE       CE
//! ```
//!
//! The other six bits, DSCP, stay inside (RFC 2983's pipe, as WireGuard in the kernel has it): the outer packet says nothing of what it carries.

use crate::bytes::{be16, put16, u8_at};
use crate::checksum;
use crate::ip::v4;

/// The two low bits of IPv4's TOS and IPv6's traffic class (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// `00`: the transport does not know congestion marks.
    #[default]
    NotEct,
    /// `01`: it does; of a transport with scalable congestion control (RFC 9331).
    Ect1,
    /// `10`: it does.
    Ect0,
    /// `11`: congestion was met.
    Ce,
}

impl Ecn {
    /// Of a whole TOS or traffic class.
    #[must_use]
    pub const fn of(traffic_class: u8) -> Self {
        match traffic_class & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// What a packet that left with `self` carries on, after its outer one arrived with `outer`; `None`: it is to be dropped.
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

/// The congestion mark of the outer packet did not fit into the inner one: it is to be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotEcnCapable;

/// Gives `packet`, whose IP header was checked, what the outer packet brought. Its header checksum, right or wrong, stays what it was.
///
/// # Errors
/// [`NotEcnCapable`]: drop it. Nothing was changed.
pub fn decapsulate(packet: &mut [u8], outer: Ecn) -> Result<(), NotEcnCapable> {
    if outer == Ecn::NotEct {
        return Ok(());
    }
    let first = be16(packet, 0);
    // Byte 1 of IPv4 is the TOS; in IPv6 the class lies across bytes 0 and 1.
    let four = first >> 12 == 4;
    let shift = if four { 0 } else { 4 };
    let inner = Ecn::of(u8_at(packet, 1) >> shift);
    let leaves = inner.decapsulated(outer).ok_or(NotEcnCapable)?;
    if leaves == inner {
        return Ok(());
    }
    let marked = first & !(3 << shift) | u16::from(leaves.bits()) << shift;
    put16(packet, 0, marked);
    if four {
        let sum = checksum::updated(be16(packet, v4::CHECKSUM), first, marked);
        put16(packet, v4::CHECKSUM, sum);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
