//! What stands between a host and the rest of the world, in words that people know and in those of RFC 4787.

use core::fmt;

/// What the outside looks like from here, as far as peers have to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nat {
    /// Nobody was asked yet, or only one relay was there to ask.
    #[default]
    Unknown,
    /// Our own address is seen from outside.
    Open,
    /// The same outer port for all destinations: a port that one knows, all may use, as far as the filter lets them.
    Cone,
    /// Another outer port for each destination, drawn at random.
    Symmetric,
    /// Another outer port for each destination, in a row: the next one can be guessed.
    Sequential,
    /// Nothing comes back over UDP.
    Blocked,
}

impl Nat {
    /// Its number in an `endpoints` message.
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

    /// The one of that number; what a later version may add is unknown.
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

    /// Whether nobody can tell which port a new destination will see.
    pub const fn is_hard(self) -> bool {
        matches!(self, Self::Symmetric | Self::Sequential)
    }

    /// Its mapping in the terms of RFC 4787, section 4.1.
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
            Self::Sequential => "hard NAT (symmetric, ports in a row)",
            Self::Blocked => "UDP blocked",
        })
    }
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
