//! The two hosts of the world.

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The first host.
    A,
    /// The second host.
    B,
}

impl Side {
    /// Both hosts.
    pub const BOTH: [Self; 2] = [Self::A, Self::B];

    /// Returns the other host.
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    pub(crate) const fn place(self) -> usize {
        match self {
            Self::A => 0,
            Self::B => 1,
        }
    }
}
