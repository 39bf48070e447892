//! Rules for when a direct path must be possible.

use crate::nat::kind::{Filtering, Kind, Place, Ports, Traits};

/// The best path between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// A direct path, always and soon. Staying on the relay is an error.
    Direct,
    /// A direct path by guessing ports, within [`BUDGET`](crate::nat::BUDGET) and with luck. Staying on the relay is no error.
    Guess,
    /// No direct path.
    Relay,
}

impl Reach {
    /// Returns the name in `lab/hosts/nats/matrix.json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Guess => "guess",
            Self::Relay => "relay",
        }
    }
}

/// The best path between two hosts, and the reason in words for users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reachability {
    /// The best path.
    pub reach: Reach,
    /// The reason for this path, or against a better one.
    pub why: &'static str,
}

/// Returns the best path between hosts of these two kinds in this place. It follows from rules alone, without the simulated NATs.
pub fn possible(a: Kind, b: Kind, place: Place) -> Reachability {
    let (one, two) = (a.traits(), b.traits());
    match place {
        Place::SameLan => direct("both are on one network and need no router"),
        Place::Isolated if one.hairpin && !one.is_hard() => direct("their NAT supports hairpinning"),
        Place::Isolated => relay("their NAT separates their networks and does not hairpin"),
        Place::SameCarrier if one.hairpin && !one.is_hard() => direct("the carrier's NAT supports hairpinning"),
        Place::SameCarrier => relay("the carrier's NAT does not hairpin"),
        Place::Apart => apart(&one, &two),
    }
}

fn apart(one: &Traits, two: &Traits) -> Reachability {
    if !one.udp || !two.udp {
        return relay("UDP is blocked on one side");
    }
    if one.one_way || two.one_way {
        return relay("packets of other hosts do not arrive on one side");
    }
    match (one.is_hard(), two.is_hard()) {
        (false, false) => direct("both know the endpoint that the other side sees, and send at the same time"),
        (true, true) => both_hard(one, two),
        (true, false) => hard_to(one, two),
        (false, true) => hard_to(two, one),
    }
}

/// Returns the verdict for a host whose port differs for each destination and a host whose port is known.
fn hard_to(hard: &Traits, known: &Traits) -> Reachability {
    match (known.filtering, hard.ports) {
        (Filtering::None | Filtering::EndpointIndependent, _) => {
            direct("one side lets in any sender, and the other side sends first")
        }
        (Filtering::AddressDependent, _) => direct("one side lets in any port of an address that it has sent to"),
        (Filtering::AddressAndPortDependent, Ports::Sequential) => guess("the next port of one side can be predicted"),
        (Filtering::AddressAndPortDependent, Ports::Random) => {
            guess("one of many ports that one side opens can be hit at random")
        }
    }
}

fn both_hard(one: &Traits, two: &Traits) -> Reachability {
    if one.ports == Ports::Sequential && two.ports == Ports::Sequential {
        return guess("the next ports of both sides can be predicted");
    }
    relay("both sides have a different port for each destination: too many pairs of ports to hit at random")
}

const fn direct(why: &'static str) -> Reachability {
    Reachability { reach: Reach::Direct, why }
}

const fn guess(why: &'static str) -> Reachability {
    Reachability { reach: Reach::Guess, why }
}

const fn relay(why: &'static str) -> Reachability {
    Reachability { reach: Reach::Relay, why }
}

#[cfg(test)]
mod tests;
