//! The kinds of NAT, in common words and in the terms of RFC 4787.

use core::fmt;
use core::net::SocketAddr;

/// The kind of NAT in front of a node, as far as peers have to know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nat {
    /// Not enough relays were asked.
    #[default]
    Unknown,
    /// No NAT: relays see this host's own address.
    Open,
    /// The same outer port for all destinations (cone): a port that one peer knows works for all, as far as the filter allows.
    Cone,
    /// Another outer port for each destination, drawn at random (symmetric).
    Symmetric,
    /// Another outer port for each destination, counted up: the next one can be guessed.
    Sequential,
    /// No UDP datagram is answered.
    Blocked,
}

impl Nat {
    /// Returns the number of the kind in an `endpoints` message.
    pub const fn number(self) -> u8 {
        match self {
            Self::Unknown => 0,
            Self::Open => 1,
            Self::Cone => 2,
            Self::Symmetric => 3,
            Self::Sequential => 4,
            Self::Blocked => 5,
        }
    }

    /// Returns the kind with that number; a number of a later version is unknown.
    pub const fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Open,
            2 => Self::Cone,
            3 => Self::Symmetric,
            4 => Self::Sequential,
            5 => Self::Blocked,
            _ => Self::Unknown,
        }
    }

    /// Returns true if the port that a new destination will see is not known for certain.
    pub const fn is_hard(self) -> bool {
        matches!(self, Self::Symmetric | Self::Sequential)
    }

    /// Returns the NAT's mapping in the terms of RFC 4787, section 4.1.
    pub const fn mapping(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Open => "none",
            Self::Cone => "endpoint-independent mapping",
            Self::Symmetric | Self::Sequential => "address- or port-dependent mapping",
            Self::Blocked => "UDP blocked",
        }
    }
}

impl fmt::Display for Nat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "not known yet",
            Self::Open => "no NAT",
            Self::Cone => "easy NAT (cone)",
            Self::Symmetric => "hard NAT (symmetric)",
            Self::Sequential => "hard NAT (symmetric, sequential ports)",
            Self::Blocked => "UDP blocked",
        })
    }
}

/// The endpoint that a new destination may see, behind a NAT that gives each destination another port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortPrediction {
    /// The NAT's address and the latest of its ports that is known.
    pub latest: SocketAddr,
    /// How far apart successive ports of the NAT are; 0 if it draws them at random.
    pub step: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_number_and_words() {
        let kinds = [Nat::Unknown, Nat::Open, Nat::Cone, Nat::Symmetric, Nat::Sequential, Nat::Blocked];
        for (number, kind) in (0..).zip(kinds) {
            assert_eq!((kind.number(), Nat::from_number(number)), (number, kind));
            assert!(!kind.to_string().is_empty() && !kind.mapping().is_empty());
        }
        assert_eq!(Nat::from_number(200), Nat::Unknown);
    }
}
