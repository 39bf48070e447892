//! Why a peer is reached as it is: what `taut why` says. Plain data, and sentences for it.
//!
//! Facts ([`WayReport`]) and what they mean ([`Meaning`], [`Verdict`]) are kept apart: the facts are what was counted, the meaning is the first of a fixed
//! list of explanations that fits them, and what would mend it follows from that.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::string::String;
use std::vec::Vec;

use crate::choice::is_private;
use crate::nat::Nat;
use crate::paths::Families;
use crate::search::Guessed;
use crate::track::{Cause, Origins};
use crate::way::Way;

/// So many probes without an answer are enough to say that nothing comes back.
const ENOUGH: u64 = 5;

/// A peer's paths, explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The way data takes.
    pub way: Option<Way>,
    /// For how long it has been that.
    pub for_long: Option<Duration>,
    /// What it means.
    pub verdict: Verdict,
    /// The NAT in front of us.
    pub our_nat: Nat,
    /// The NAT in front of the peer, as it says.
    pub their_nat: Nat,
    /// Each way that is known: relays, then direct ones.
    pub ways: Vec<WayReport>,
}

/// What was counted on one way. Durations are how long ago something was, or for how long it has been so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WayReport {
    /// Which.
    pub way: Way,
    /// Who named it.
    pub origins: Origins,
    /// Data takes it.
    pub in_use: bool,
    /// Known for.
    pub known_for: Duration,
    /// Leading to the peer for.
    pub proven_for: Option<Duration>,
    /// Leading there no more for, and why.
    pub down: Option<(Duration, Cause)>,
    /// Being judged.
    pub suspected: bool,
    /// Probes sent by it.
    pub sent: u64,
    /// Answers that came by it.
    pub answered: u64,
    /// Answers to its probes that came by another way.
    pub answered_elsewhere: u64,
    /// Probes of the peer that came by it.
    pub asked: u64,
    /// When an authentic packet of the peer came by it.
    pub heard_ago: Option<Duration>,
    /// Probes that the budgets held back.
    pub refused: u64,
    /// How long a packet takes there and back.
    pub round_trip: Option<Duration>,
    /// Lost probes in per cent, of the latest 16.
    pub loss: Option<u32>,
    /// Where the peer saw our probes come from.
    pub seen_as: Option<SocketAddr>,
    /// Whether we have an address of its family.
    pub family: bool,
    /// Nothing is probed, because nothing flows.
    pub asleep: bool,
}

/// What the counts of one way mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Data takes it.
    InUse,
    /// It leads to the peer, and another one is better.
    Ready,
    /// It leads to the peer, as the relay says; nothing has been sent yet.
    Promised,
    /// It is being judged.
    Judged,
    /// It led there, and nothing comes back any more.
    Died,
    /// It loses much more than the relay.
    Lossy,
    /// Probes pass, data does not.
    NoData,
    /// We have no address of its family.
    NoFamily,
    /// Nothing flows, so nothing was tried.
    Asleep,
    /// Too little was sent yet to say anything.
    Trying,
    /// The limits hold probes back.
    Limited,
    /// The peer's packets come, ours do not arrive there, or its answers do not come back.
    OneWay,
    /// The answers come from elsewhere: the peer's NAT sends them from another port or address.
    Elsewhere,
    /// An address of some private network that is not ours, or the peer is not there.
    OtherNetwork,
    /// Nothing comes back.
    Silent,
}

impl WayReport {
    /// What it means.
    pub fn meaning(&self) -> Meaning {
        let private = self.way.direct().is_some_and(|endpoint| is_private(endpoint.ip()));
        match self.down {
            _ if self.suspected => Meaning::Judged,
            _ if self.in_use && (self.proven_for.is_some() || self.down.is_none()) => Meaning::InUse,
            Some((_, Cause::Silent)) => Meaning::Died,
            Some((_, Cause::Lossy)) => Meaning::Lossy,
            Some((_, Cause::NoData)) => Meaning::NoData,
            None if self.proven_for.is_some() => Meaning::Ready,
            None if !self.family => Meaning::NoFamily,
            None if self.way.is_relayed() && self.sent < ENOUGH => Meaning::Promised,
            None if self.sent == 0 && self.asleep => Meaning::Asleep,
            None if self.answered_elsewhere > 0 => Meaning::Elsewhere,
            None if self.sent < ENOUGH && self.refused > self.sent => Meaning::Limited,
            None if self.sent < ENOUGH => Meaning::Trying,
            None if self.heard_ago.is_some() => Meaning::OneWay,
            None if private => Meaning::OtherNetwork,
            None => Meaning::Silent,
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
            Self::NoFamily => "no-family",
            Self::Asleep => "asleep",
            Self::Trying => "trying",
            Self::Limited => "limited",
            Self::OneWay => "one-way",
            Self::Elsewhere => "elsewhere",
            Self::OtherNetwork => "other-network",
            Self::Silent => "silent",
        }
    }
}

impl fmt::Display for Meaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InUse => "data goes this way",
            Self::Ready => "leads to the peer; another way is better",
            Self::Promised => "the relay has the peer; not needed so far",
            Self::Judged => "being judged: a probe or data was not answered",
            Self::Died => "was good, and nothing comes back any more",
            Self::Lossy => "loses much more than the relay does",
            Self::NoData => "probes pass and data does not: a filter, or packets too long for it",
            Self::NoFamily => "not tried: this host has no address of that family",
            Self::Asleep => "not tried: nothing flows between the two",
            Self::Trying => "being tried",
            Self::Limited => "held back: too many probes to that address already",
            Self::OneWay => "packets come from there, and none of ours is answered: something drops one direction",
            Self::Elsewhere => "answers come from another port or address: the peer's NAT has another mapping for us",
            Self::OtherNetwork => "no answer: a private address of a network that this host is not in",
            Self::Silent => "no answer: a firewall or NAT in front of the peer drops what it did not ask for",
        })
    }
}

/// Why a peer is reached as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Directly.
    Direct,
    /// Nothing flows; the next packet starts the search.
    Asleep,
    /// By a relay while direct ways are being tried.
    Looking,
    /// By a relay: neither has told the other where it is.
    NoCandidates,
    /// By a relay: UDP is blocked on our side, or on the peer's.
    Blocked {
        /// On ours.
        ours: bool,
    },
    /// By a relay: both NATs show each destination another port.
    BothHard,
    /// By a relay: one NAT shows each destination another port, and the other's filter lets in only what it knows.
    OneHard {
        /// The hard one is ours.
        ours: bool,
        /// How far its port was looked for.
        guessed: Guessed,
    },
    /// By a relay: no family of addresses is common to both.
    NoCommonFamily,
    /// By a relay: one direction works.
    OneWay,
    /// By a relay: the direct way was good and died.
    Died,
    /// By a relay: the direct way loses too much, or carries no data.
    Poor,
    /// By a relay: nothing comes back on any direct way.
    Filtered,
    /// Not at all: no relay has the peer, and no direct way leads there.
    Unreachable,
}

impl Verdict {
    pub(crate) fn of(
        way: Option<Way>,
        ways: &[WayReport],
        asleep: bool,
        nats: (Nat, Nat),
        families: Families,
        guessed: Guessed,
    ) -> Self {
        let direct = || ways.iter().filter(|way| !way.way.is_relayed());
        let any = |meaning: Meaning| direct().any(|way| way.meaning() == meaning);
        let (ours, theirs) = nats;
        match way {
            Some(Way::Direct(_)) if direct().any(|way| way.in_use && way.proven_for.is_some()) => Self::Direct,
            _ if asleep => Self::Asleep,
            None | Some(Way::Direct(_)) => Self::Unreachable,
            Some(Way::Relayed { .. }) if direct().next().is_none() => Self::NoCandidates,
            Some(Way::Relayed { .. }) if any(Meaning::Lossy) || any(Meaning::NoData) => Self::Poor,
            Some(Way::Relayed { .. }) if any(Meaning::Trying) || any(Meaning::Judged) => Self::Looking,
            Some(Way::Relayed { .. }) if ours == Nat::Blocked || theirs == Nat::Blocked => {
                Self::Blocked { ours: ours == Nat::Blocked }
            }
            Some(Way::Relayed { .. }) if any(Meaning::Died) => Self::Died,
            Some(Way::Relayed { .. }) if ours.is_hard() && theirs.is_hard() => Self::BothHard,
            Some(Way::Relayed { .. }) if ours.is_hard() != theirs.is_hard() => {
                Self::OneHard { ours: ours.is_hard(), guessed }
            }
            Some(Way::Relayed { .. }) if !direct().any(|way| families.has(way.way)) => Self::NoCommonFamily,
            Some(Way::Relayed { .. }) if any(Meaning::OneWay) => Self::OneWay,
            Some(Way::Relayed { .. }) => Self::Filtered,
        }
    }

    /// A word for machines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Asleep => "asleep",
            Self::Looking => "looking",
            Self::NoCandidates => "no-candidates",
            Self::Blocked { .. } => "udp-blocked",
            Self::BothHard => "both-symmetric",
            Self::OneHard { .. } => "one-symmetric",
            Self::NoCommonFamily => "no-common-family",
            Self::OneWay => "one-way",
            Self::Died => "died",
            Self::Poor => "poor",
            Self::Filtered => "filtered",
            Self::Unreachable => "unreachable",
        }
    }

    /// What would mend it; nothing where nothing is wrong.
    pub fn mend(self) -> Option<String> {
        let one = |ours: bool| if ours { "here" } else { "at the peer" };
        let port = "switch on port mapping (UPnP, NAT-PMP or PCP) on the router, forward a UDP port, or use IPv6";
        Some(match self {
            Self::Direct | Self::Asleep | Self::Looking => return None,
            Self::NoCandidates => "see that both nodes reach the coordinator, or each other by a relay; each tells the other where it is".into(),
            Self::Blocked { ours } => format!("let UDP out {}; until then the relay carries everything", one(ours)),
            Self::BothHard => format!("on one side is enough: {port}"),
            Self::OneHard { ours, .. } => format!("{}: {port}; or the same on the other side", one(ours)),
            Self::NoCommonFamily => "give both hosts an address of one family".into(),
            Self::OneWay => "look for a firewall that drops one direction: UDP must pass both ways between the addresses above".into(),
            Self::Died => "nothing, if a link or NAT was just changed: the way is tried again every second; else see what changed between the two".into(),
            Self::Poor => "look at the link: the way is taken again as soon as it carries".into(),
            Self::Filtered => format!("let UDP in on one side, or {port}"),
            Self::Unreachable => "see that the peer runs and is online, and that a relay is configured in the network".into(),
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |ours: &bool| if *ours { "on this side" } else { "on the peer's side" };
        match self {
            Self::Direct => f.write_str("direct"),
            Self::Asleep => f.write_str("nothing flows between the two; the next packet goes by the relay at once, and direct ways are tried then"),
            Self::Looking => f.write_str("relayed for now: direct ways are being tried"),
            Self::NoCandidates => f.write_str("relayed: no address of the peer is known"),
            Self::Blocked { ours } => write!(f, "relayed: UDP is blocked {}", side(ours)),
            Self::BothHard => f.write_str(
                "relayed: symmetric NAT on both sides; neither can tell the other its port, and there are too many pairs of ports to guess",
            ),
            Self::OneHard { ours, guessed } => {
                write!(f, "relayed: symmetric NAT {}, and the other side lets in only ports that it knows; ", side(ours))?;
                guessed.fmt(f)
            }
            Self::NoCommonFamily => f.write_str("relayed: one has IPv4 only and the other IPv6 only"),
            Self::OneWay => f.write_str("relayed: direct packets pass in one direction only"),
            Self::Died => f.write_str("relayed: the direct way stopped working"),
            Self::Poor => f.write_str("relayed: the direct way loses too much"),
            Self::Filtered => f.write_str("relayed: no direct packet is answered; a firewall on one side or both drops them"),
            Self::Unreachable => f.write_str("not reached: no relay has the peer, and no direct way leads to it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(endpoint: &str) -> WayReport {
        WayReport {
            way: Way::Direct(endpoint.parse().unwrap()),
            origins: Origins::default(),
            in_use: false,
            known_for: Duration::ZERO,
            proven_for: None,
            down: None,
            suspected: false,
            sent: 20,
            answered: 0,
            answered_elsewhere: 0,
            asked: 0,
            heard_ago: None,
            refused: 0,
            round_trip: None,
            loss: None,
            seen_as: None,
            family: true,
            asleep: false,
        }
    }

    #[test]
    fn the_same_silence_means_different_things() {
        let public = way("192.0.2.1:1");
        assert_eq!(public.meaning(), Meaning::Silent);
        assert_eq!(way("10.0.0.1:1").meaning(), Meaning::OtherNetwork);
        assert_eq!(WayReport { heard_ago: Some(Duration::ZERO), ..public.clone() }.meaning(), Meaning::OneWay);
        assert_eq!(WayReport { answered_elsewhere: 1, ..public.clone() }.meaning(), Meaning::Elsewhere);
        assert_eq!(WayReport { family: false, ..public.clone() }.meaning(), Meaning::NoFamily);
        assert_eq!(WayReport { sent: 2, ..public.clone() }.meaning(), Meaning::Trying);
        assert_eq!(WayReport { sent: 2, refused: 9, ..public }.meaning(), Meaning::Limited);
    }

    #[test]
    fn fault_d5_who_is_relayed_hears_why_and_what_to_do() {
        let relay = Some(Way::Relayed { relay: "192.0.2.9:3478".parse().unwrap(), id: 1 });
        let silent = [way("192.0.2.1:1")];
        let guessed = Guessed { rounds: 3, of: 3, odds: 98 };
        let of = |ours, theirs| Verdict::of(relay, &silent, false, (ours, theirs), Families::default(), guessed);
        assert_eq!(of(Nat::Symmetric, Nat::Sequential), Verdict::BothHard);
        assert_eq!(of(Nat::Cone, Nat::Symmetric), Verdict::OneHard { ours: false, guessed });
        assert!(of(Nat::Cone, Nat::Symmetric).to_string().contains("98 of 100"));
        assert_eq!(of(Nat::Blocked, Nat::Symmetric), Verdict::Blocked { ours: true });
        assert_eq!(of(Nat::Cone, Nat::Cone), Verdict::Filtered);
        assert_eq!(
            Verdict::of(relay, &[], false, (Nat::Cone, Nat::Cone), Families::default(), guessed),
            Verdict::NoCandidates
        );
        for verdict in [of(Nat::Symmetric, Nat::Symmetric), of(Nat::Cone, Nat::Symmetric), of(Nat::Cone, Nat::Blocked)]
        {
            assert!(verdict.to_string().starts_with("relayed") && verdict.mend().is_some(), "{verdict:?}");
        }
        assert_eq!(Verdict::Direct.mend(), None);
    }
}
