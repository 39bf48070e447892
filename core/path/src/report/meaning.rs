//! The meaning of one candidate's counts.

use core::fmt;

use super::{EndpointLocation, LimitCause, WayLimit, WayReport};
use crate::reasons::DownCause;

/// Unanswered probes that are enough to say that nothing comes back.
const ENOUGH: u64 = 5;

/// The meaning of one candidate's counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Data takes it.
    InUse,
    /// It leads to the peer, and another path is better.
    Ready,
    /// The relay says that it has the peer; too few probes were sent to know more.
    Promised,
    /// It is suspected.
    Judged,
    /// It led to the peer, and nothing comes back any more.
    Died,
    /// It loses much more than the relay.
    Lossy,
    /// Probes pass, and data does not.
    NoData,
    /// Short probes are answered, and none of the length of a packet is: packets of more than this many bytes may be lost.
    TooLong(u16),
    /// This host has no address of its family.
    NoFamily,
    /// There is no session to probe in, or no data flows.
    Asleep,
    /// Too few probes were sent to say anything.
    Trying,
    /// The limits hold probes back.
    Limited,
    /// Packets of the peer come; probes do not arrive there, or their answers do not come back.
    OneWay,
    /// The answers come from another port or address of the peer's NAT.
    Elsewhere,
    /// This host has the address itself.
    OwnAddress,
    /// The address is in a network of this host.
    Neighbour,
    /// The NAT in front of this host has the address.
    Hairpin,
    /// The address is private and in no network of this host.
    OtherNetwork,
    /// Nothing comes back.
    Silent,
    /// Nothing comes back through this relay.
    RelaySilent,
}

impl WayReport {
    /// Returns the first meaning that fits the counts.
    pub fn meaning(&self) -> Meaning {
        let relayed = self.way.is_relayed();
        let few = self.sent < ENOUGH;
        // True if packets came after it went down.
        let heard_since = |down| self.heard_ago.is_some_and(|heard| heard < down);
        match (self.asleep, self.suspected, self.limit) {
            (true, ..) => return Meaning::Asleep,
            (_, true, _) => return Meaning::Judged,
            (.., Some(WayLimit { bytes, cause: LimitCause::Unanswered })) => return Meaning::TooLong(bytes),
            _ => {}
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
                EndpointLocation::OwnHost => Meaning::OwnAddress,
                EndpointLocation::SameNetwork => Meaning::Neighbour,
                EndpointLocation::OwnNat => Meaning::Hairpin,
                EndpointLocation::Private => Meaning::OtherNetwork,
                EndpointLocation::Public => Meaning::Silent,
            },
        }
    }

    /// Returns true if its address is in a network of this host and no packet to it is answered.
    pub(crate) fn is_silent_neighbour(&self) -> bool {
        self.place == EndpointLocation::SameNetwork && matches!(self.meaning(), Meaning::Neighbour | Meaning::OneWay)
    }

    /// Returns true if packets on it may reach the peer, as far as is known.
    pub(crate) fn may_carry(&self) -> bool {
        match self.down {
            Some((_, DownCause::Silent)) => false,
            Some((_, DownCause::Lossy | DownCause::NoData)) => true,
            None => self.proven_for.is_some() || self.way.is_relayed() && (self.sent < ENOUGH || self.answered > 0),
        }
    }
}

impl Meaning {
    /// Returns the name for JSON.
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
            Self::TooLong(limit) => {
                return write!(f, "short probes are answered, and none as long as a packet: more than {limit} bytes may be lost");
            }
            Self::InUse => "carries data",
            Self::Ready => "leads to the peer; another path is better",
            Self::Promised => "the relay has the peer; not needed so far",
            Self::Judged => "suspected: a probe or data was not answered",
            Self::Died => "worked before, and nothing comes back any more",
            Self::Lossy => "loses much more than the relay",
            Self::NoData => "probes pass and data does not: a filter drops it",
            Self::NoFamily => "not tried: this host has no address of that family",
            Self::Asleep => "not tried: there is no session with the peer, or no data flows",
            Self::Trying => "being tried",
            Self::Limited => "held back: too many probes to that address already",
            Self::OneWay => "packets come from there, and no packet to it is answered: something drops one direction",
            Self::Elsewhere => "answers come from another port or address: the peer's NAT has another mapping for this host",
            Self::OwnAddress => "no answer: this host has that address, too; the peer is in another network with equal addresses",
            Self::Neighbour => "no answer, though it is in a network of this host: a firewall drops the packets, or the peer is in another network with equal addresses",
            Self::Hairpin => "no answer: the NAT in front of this host has that address, and does not send packets back inside",
            Self::OtherNetwork => "no answer: a private address in no network of this host",
            Self::Silent => "no answer: a firewall or NAT drops the packets, or the peer is not there",
            Self::RelaySilent => "no answer: this relay is away, or the peer is not there",
        })
    }
}
