//! What the counts of one way mean.

use core::fmt;

use super::{Place, WayReport};
use crate::candidate_state::DownCause;

/// So many probes without an answer are enough to say that nothing comes back.
const ENOUGH: u64 = 5;

/// What the counts of one way mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Data takes it.
    InUse,
    /// It leads to the peer, and another one is better.
    Ready,
    /// The relay has the peer, as it says; too little was sent yet to know more.
    Promised,
    /// It is being judged.
    Judged,
    /// It led there, and nothing comes back any more.
    Died,
    /// It loses much more than the relay.
    Lossy,
    /// Probes pass, data does not.
    NoData,
    /// Packets up to this many bytes pass, longer ones do not.
    TooLong(u16),
    /// We have no address of its family.
    NoFamily,
    /// There is no session to probe in.
    Asleep,
    /// Too little was sent yet to say anything.
    Trying,
    /// The limits hold probes back.
    Limited,
    /// The peer's packets come, ours do not arrive there, or its answers do not come back.
    OneWay,
    /// The answers come from elsewhere: the peer's NAT sends them from another port or address.
    Elsewhere,
    /// This host has the address itself.
    OwnAddress,
    /// An address of a network that this host is in.
    Neighbour,
    /// The address of the NAT in front of this host.
    Hairpin,
    /// An address of some private network that is not ours.
    OtherNetwork,
    /// Nothing comes back.
    Silent,
    /// Nothing comes back by this relay.
    RelaySilent,
}

impl WayReport {
    /// What it means.
    pub fn meaning(&self) -> Meaning {
        let relayed = self.way.is_relayed();
        let few = self.sent < ENOUGH;
        // Packets that came after it was given up.
        let heard_since = |down| self.heard_ago.is_some_and(|heard| heard < down);
        match (self.asleep, self.suspected, self.fits) {
            (true, ..) => return Meaning::Asleep,
            (_, true, _) => return Meaning::Judged,
            (.., Some(fits)) => return Meaning::TooLong(fits),
            (.., None) => {}
        }
        match self.down {
            Some((_, DownCause::Lossy)) => Meaning::Lossy,
            Some((_, DownCause::NoData)) => Meaning::NoData,
            Some((down, DownCause::Silent)) if heard_since(down) => Meaning::OneWay,
            Some((_, DownCause::Silent)) => Meaning::Died,
            None if self.in_use && (self.proven_for.is_some() || self.may_carry()) => Meaning::InUse,
            None if self.proven_for.is_some() => Meaning::Ready,
            None if !self.family => Meaning::NoFamily,
            None if relayed && few => Meaning::Promised,
            None if self.answered_elsewhere > 0 => Meaning::Elsewhere,
            None if few && self.refused > self.sent => Meaning::Limited,
            None if few => Meaning::Trying,
            None if self.heard_ago.is_some() => Meaning::OneWay,
            None if relayed => Meaning::RelaySilent,
            None => match self.place {
                Place::Here => Meaning::OwnAddress,
                Place::Near => Meaning::Neighbour,
                Place::OurNat => Meaning::Hairpin,
                Place::Private => Meaning::OtherNetwork,
                Place::Far => Meaning::Silent,
            },
        }
    }

    /// Returns true if it leads to an address of a network that this host is in, and none of our packets is answered.
    pub(crate) fn is_silent_neighbour(&self) -> bool {
        self.place == Place::Near && matches!(self.meaning(), Meaning::Neighbour | Meaning::OneWay)
    }

    /// Returns true if packets that take this way may reach the peer, as far as is known.
    pub(crate) fn may_carry(&self) -> bool {
        match self.down {
            Some((_, DownCause::Silent)) => false,
            Some((_, DownCause::Lossy | DownCause::NoData)) => true,
            None => self.proven_for.is_some() || self.way.is_relayed() && (self.sent < ENOUGH || self.answered > 0),
        }
    }
}

impl Meaning {
    /// A word for machines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InUse => "in-use",
            Self::Ready => "ready",
            Self::Promised => "promised",
            Self::Judged => "judged",
            Self::Died => "died",
            Self::Lossy => "lossy",
            Self::NoData => "no-data",
            Self::TooLong(_) => "too-long",
            Self::NoFamily => "no-family",
            Self::Asleep => "asleep",
            Self::Trying => "trying",
            Self::Limited => "limited",
            Self::OneWay => "one-way",
            Self::Elsewhere => "elsewhere",
            Self::OwnAddress => "own-address",
            Self::Neighbour => "neighbour",
            Self::Hairpin => "hairpin",
            Self::OtherNetwork => "other-network",
            Self::Silent => "silent",
            Self::RelaySilent => "relay-silent",
        }
    }
}

impl fmt::Display for Meaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong(fits) => return write!(f, "packets up to {fits} bytes pass, longer ones are lost"),
            Self::InUse => "data goes this way",
            Self::Ready => "leads to the peer; another way is better",
            Self::Promised => "the relay has the peer; not needed so far",
            Self::Judged => "being judged: a probe or data was not answered",
            Self::Died => "was good, and nothing comes back any more",
            Self::Lossy => "loses much more than the relay does",
            Self::NoData => "probes pass and data does not: a filter, or packets too long for it",
            Self::NoFamily => "not tried: this host has no address of that family",
            Self::Asleep => "not tried: there is no session with the peer, or nothing flows",
            Self::Trying => "being tried",
            Self::Limited => "held back: too many probes to that address already",
            Self::OneWay => "packets come from there, and none of ours is answered: something drops one direction",
            Self::Elsewhere => "answers come from another port or address: the peer's NAT has another mapping for us",
            Self::OwnAddress => "no answer: this host has that address, too; the peer is in another network with equal ones",
            Self::Neighbour => "no answer, though it is in a network of this host: a firewall drops it, or the peer is in another network with equal addresses",
            Self::Hairpin => "no answer: the NAT in front of this host has that address, and does not send packets back inside",
            Self::OtherNetwork => "no answer: a private address, and in no network of this host",
            Self::Silent => "no answer: a firewall or NAT drops it, or the peer is not there",
            Self::RelaySilent => "no answer: this relay is away, or the peer is not there",
        })
    }
}
