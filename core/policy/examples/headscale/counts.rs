//! The counts of a comparison.

use std::fmt;
use std::iter::Sum;
use std::ops::Add;

use crate::case::Answer;

/// The number of policies, packets and pairs of nodes that were compared.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    /// Policies that both accept.
    pub(crate) policies: u64,
    /// Policies that both refuse.
    pub(crate) refused: u64,
    /// Policies with parts that Taut does not have.
    pub(crate) unknown: u64,
    /// Packets.
    pub(crate) packets: u64,
    /// Packets that pass by Taut.
    pub(crate) allowed: u64,
    /// Pairs of nodes, in both directions, that know each other by Taut.
    pub(crate) acquainted: u64,
    /// Verdicts, lists of peers and refusals that differ.
    pub(crate) different: u64,
}

impl Counts {
    /// Counts the answers to one case.
    pub(crate) fn of(ours: &Answer, theirs: &Answer) -> Self {
        let (Ok(ours), Ok(theirs)) = (ours, theirs) else {
            let both = ours.is_err() && theirs.is_err();
            return Self { refused: both.into(), different: (!both).into(), ..Self::default() };
        };
        let verdicts = ours.verdicts.iter().zip(&theirs.verdicts).filter(|(ours, theirs)| ours != theirs);
        let peers = ours.peers.iter().zip(&theirs.peers).filter(|(ours, theirs)| ours != theirs);
        Self {
            policies: 1,
            packets: ours.verdicts.len() as u64,
            allowed: ours.verdicts.iter().filter(|allowed| **allowed).count() as u64,
            acquainted: ours.peers.iter().map(|peers| peers.len() as u64).sum(),
            different: (verdicts.count() + peers.count()) as u64,
            ..Self::default()
        }
    }
}

impl Add for Counts {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self {
            policies: self.policies + more.policies,
            refused: self.refused + more.refused,
            unknown: self.unknown + more.unknown,
            packets: self.packets + more.packets,
            allowed: self.allowed + more.allowed,
            acquainted: self.acquainted + more.acquainted,
            different: self.different + more.different,
        }
    }
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), Self::add)
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { policies, refused, unknown, packets, allowed, acquainted, different } = self;
        write!(
            f,
            "{packets} packets under {policies} policies, {allowed} of them allowed; {acquainted} times a node knows another; {refused} policies refused by both, \
            {unknown} with parts that Taut does not have; {different} different"
        )
    }
}
