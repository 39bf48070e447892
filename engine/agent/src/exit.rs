//! The user's choice of an exit node: the peer through which this host reaches the internet (docs/exit.md). Pure.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use taut_base::{NodeId, closest};
use taut_netmap::{NetworkMap, Peer};
use taut_node::ExitWish;

use crate::api::Failure;

/// Longest name that may be chosen, 253 bytes: a name of the DNS (RFC 1035, 2.3.4).
const MAX_NAME: usize = 253;

/// Maximum number of exit nodes that a hint names, 8: they fit into two lines of a terminal.
const MAX_NAMED: usize = 8;

/// Hint for a network without an exit node: how a node becomes one.
const OFFER: &str =
    "run `taut set --advertise-exit-node` on a node, have it approved, and have the policy allow `autogroup:internet`";

/// The exit node that this host uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ExitChoice {
    /// None: what goes to the internet takes the host's own way.
    #[default]
    None,
    /// One of those that this host may use: the nearest that works.
    Auto,
    /// The node of this name or overlay address.
    Node(String),
    /// The node with this number, which had this name or overlay address when the user chose it. Coordinators give a number once, so no other node takes its place with the name.
    Pinned(String, NodeId),
}

impl ExitChoice {
    /// Returns true if this host sends what goes to the internet through an exit node, or not at all.
    pub fn is_on(&self) -> bool {
        *self != Self::None
    }

    /// Returns the choice as the node's rules know it.
    pub(crate) fn wish(&self, map: &NetworkMap) -> ExitWish {
        match self {
            Self::None => ExitWish::None,
            Self::Auto => ExitWish::Auto,
            Self::Node(_) | Self::Pinned(..) => ExitWish::Node(self.peer(map).map(|peer| peer.id)),
        }
    }

    /// Returns the choice of the very node that has the chosen name or address now, if one has.
    pub(crate) fn pinned(&self, map: &NetworkMap) -> Option<Self> {
        let Self::Node(wanted) = self else { return None };
        self.peer(map).map(|peer| Self::Pinned(wanted.clone(), peer.id))
    }

    /// Returns the choice as the user wrote it.
    pub(crate) fn written(&self) -> &str {
        match self {
            Self::None => "none",
            Self::Auto => "auto",
            Self::Node(wanted) | Self::Pinned(wanted, _) => wanted,
        }
    }

    /// Returns the peer that the user chose by its name, which may have the network's name or domain behind it, or by an overlay address.
    pub(crate) fn peer<'a>(&self, map: &'a NetworkMap) -> Option<&'a Peer> {
        if let Self::Pinned(_, id) = self {
            return map.peers.get(id);
        }
        let Self::Node(wanted) = self else { return None };
        if let Ok(address) = wanted.parse() {
            return map.peers.values().find(|peer| peer.addresses.contains(&address));
        }
        let name = own_part(wanted, map)?;
        map.peers.values().find(|peer| peer.name == name)
    }

    /// Returns true if the user chose this node itself, by name or overlay address.
    pub(crate) fn is_own(&self, map: &NetworkMap) -> bool {
        let Self::Node(wanted) = self else { return false };
        match wanted.parse() {
            Ok(address) => map.me.addresses.contains(&address),
            Err(_) => own_part(wanted, map) == Some(&map.me.name),
        }
    }

    /// Returns the name of a node that is close to the chosen one, which no node has: of an exit node first.
    pub(crate) fn meant<'a>(&self, map: &'a NetworkMap) -> Option<&'a str> {
        let Self::Node(wanted) = self else { return None };
        let name = own_part(wanted, map)?;
        let close = |is_exit| {
            let peers = map.peers.values().filter(|peer| peer.is_exit() == is_exit);
            closest(name, peers.map(|peer| peer.name.as_str()))
        };
        close(true).or_else(|| close(false))
    }

    /// Returns why no packet can take this choice in this network, and which exit nodes there are. `None` for an exit node of the network, even if it does not answer, and for no choice.
    pub(crate) fn unusable(&self, map: &NetworkMap) -> Option<Failure> {
        let message = match self {
            Self::None => return None,
            Self::Auto if map.peers.values().any(Peer::is_exit) => return None,
            Self::Auto => String::from("no member of this network is an exit node that this host may use"),
            Self::Node(wanted) | Self::Pinned(wanted, _) => match self.peer(map) {
                Some(peer) if peer.is_exit() => return None,
                Some(peer) => return Some(no_exit(peer, map)),
                None if self.is_own(map) => String::from("this host cannot be its own exit node"),
                None => self.unknown(wanted, map),
            },
        };
        let meant = self.meant(map).map(|name| format!("did you mean `{name}`? ")).unwrap_or_default();
        Some(Failure::new(message, format!("{meant}{}", exit_nodes(map))))
    }

    /// Says that no member has the chosen name or address.
    fn unknown(&self, wanted: &str, map: &NetworkMap) -> String {
        let overlay = [map.network.ipv4, map.network.ipv6];
        match (self, wanted.parse::<IpAddr>()) {
            (Self::Pinned(..), _) => {
                let has_name = Self::Node(String::from(wanted)).peer(map).is_some();
                let other = if has_name { ", and another node has that name or address now" } else { "" };
                format!("the node that was chosen as {wanted} is not known here any more{other}")
            }
            (_, Ok(address)) if !overlay.iter().any(|prefix| prefix.contains(address)) => {
                format!("{address} is no overlay address, so no exit node has it")
            }
            (_, Ok(address)) => format!("no member of this network that this host knows has the address {address}"),
            (_, Err(_)) => format!("no member of this network that this host knows is called {wanted}"),
        }
    }
}

/// Says that this peer is no exit node, and what makes it one.
fn no_exit(peer: &Peer, map: &NetworkMap) -> Failure {
    let name = &peer.name;
    let makes = format!(
        "{name} needs `taut set --advertise-exit-node`, the approval `taut-coordinator routes approve {name} exit-node`, and a policy that allows `autogroup:internet`"
    );
    let others = if map.peers.values().any(Peer::is_exit) { format!("{}; ", exit_nodes(map)) } else { String::new() };
    let none = if others.is_empty() { ", and no other member is one" } else { "" };
    Failure::new(format!("{name} is no exit node that this host may use{none}"), format!("{others}{makes}"))
}

/// Names the exit nodes that this host may use, or says how a node becomes one.
fn exit_nodes(map: &NetworkMap) -> String {
    let names: Vec<&str> = map.peers.values().filter(|peer| peer.is_exit()).map(|peer| &*peer.name).collect();
    if names.is_empty() {
        return format!("no member offers an exit node: {OFFER}");
    }
    let more = match names.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let first = names.into_iter().take(MAX_NAMED).collect::<Vec<_>>().join(", ");
    format!("`taut set --exit-node NODE` takes one of {first}{more}")
}

/// Returns the node's part of a name in the network, which may have the network's name or domain behind it.
fn own_part<'a>(wanted: &'a str, map: &NetworkMap) -> Option<&'a str> {
    let (name, domain) = wanted.trim_end_matches('.').split_once('.').unwrap_or((wanted, ""));
    let bases: Vec<String> = map.network.naming.base_domain.iter().cloned().collect();
    let is_zone = domain == map.network.zone(&[]) || domain == map.network.zone(&bases);
    (domain.is_empty() || domain == map.network.name || is_zone).then_some(name)
}

/// A text that chooses no exit node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadExitChoice;

impl fmt::Display for BadExitChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write the name of a node, its overlay address, `auto` or `none`")
    }
}

impl FromStr for ExitChoice {
    type Err = BadExitChoice;

    fn from_str(text: &str) -> Result<Self, BadExitChoice> {
        let is_name = |text: &str| {
            let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
            !text.is_empty() && text.len() <= MAX_NAME && text.bytes().all(is_letter) && !text.starts_with(['-', '.'])
        };
        if let Some((wanted, id)) = text.rsplit_once('#') {
            let (Ok(Self::Node(wanted)), Ok(id)) = (wanted.parse(), id.parse()) else { return Err(BadExitChoice) };
            return Ok(Self::Pinned(wanted, NodeId(id)));
        }
        match text {
            "none" => Ok(Self::None),
            "auto" => Ok(Self::Auto),
            _ => match text.parse::<IpAddr>() {
                Ok(address) => Ok(Self::Node(address.to_string())),
                Err(_) if is_name(text) => Ok(Self::Node(text.to_ascii_lowercase())),
                Err(_) => Err(BadExitChoice),
            },
        }
    }
}

impl fmt::Display for ExitChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pinned(wanted, id) => write!(f, "{wanted}#{id}"),
            other => f.write_str(other.written()),
        }
    }
}

#[cfg(test)]
mod tests {
    use taut_netmap::exit_routes;

    use super::*;
    use crate::testkit::{network, peer};

    #[test]
    fn a_choice_is_a_name_an_address_auto_or_none() {
        for (text, shown) in [
            ("none", "none"),
            ("auto", "auto"),
            ("Gate", "gate"),
            ("gate.default", "gate.default"),
            ("fd00::0:1", "fd00::1"),
            ("Gate#7", "gate#7"),
            ("fd00::0:1#7", "fd00::1#7"),
        ] {
            let choice: ExitChoice = text.parse().unwrap();
            assert_eq!(choice.to_string(), shown);
            assert_eq!(shown.parse(), Ok(choice.clone()));
            assert_eq!(choice.is_on(), shown != "none");
        }
        for bad in ["", "a/b", "a b", "-a", "gate;", "auto#7", "gate#", "gate#x", "a#7#7", &"a".repeat(254)] {
            assert_eq!(bad.parse::<ExitChoice>(), Err(BadExitChoice), "{bad}");
        }
    }

    #[test]
    fn fault_e17_a_choice_follows_its_node_and_not_the_name() {
        let named = |id, name| peer(id, name, 2, exit_routes().to_vec());
        let choice: ExitChoice = "gate".parse().unwrap();
        let pinned = choice.pinned(&network(1, [named(2, "gate")])).unwrap();
        assert_eq!((pinned.to_string().as_str(), pinned.written()), ("gate#2", "gate"));
        assert_eq!(pinned.to_string().parse(), Ok(pinned.clone()));
        // Renamed, and another node has the name now.
        let later = network(1, [named(2, "old-gate"), named(3, "gate")]);
        assert_eq!(pinned.wish(&later), ExitWish::Node(Some(NodeId(2))));
        assert_eq!(choice.wish(&later), ExitWish::Node(Some(NodeId(3))));
        let gone = network(1, [named(3, "gate")]);
        assert_eq!(pinned.wish(&gone), ExitWish::Node(None));
        let unknown: ExitChoice = "nosuch".parse().unwrap();
        assert_eq!((unknown.pinned(&gone), pinned.pinned(&gone)), (None, None));
    }

    #[test]
    fn this_host_and_a_misspelt_name_are_known_as_such() {
        let map = network(1, [peer(2, "gate", 2, exit_routes().to_vec()), peer(3, "gata", 3, Vec::new())]);
        let choice = |text: &str| text.parse::<ExitChoice>().unwrap();
        for own in ["me", "me.home", "me.home.taut.internal", "100.64.0.1"] {
            assert!(choice(own).is_own(&map) && choice(own).peer(&map).is_none(), "{own}");
        }
        for other in ["gate", "me.other", "100.64.0.2", "auto", "none"] {
            assert!(!choice(other).is_own(&map), "{other}");
        }
        assert_eq!(choice("gat").meant(&map), Some("gate"), "an exit node before another node");
        assert_eq!(choice("gat.home").meant(&map), Some("gate"));
        assert_eq!((choice("nosuch").meant(&map), choice("auto").meant(&map)), (None, None));
    }

    #[test]
    fn a_choice_that_leads_nowhere_names_the_exit_nodes() {
        let exit = |id: u8| peer(id.into(), &format!("gate{id}"), id, exit_routes().to_vec());
        let plain = || peer(40, "nas", 40, Vec::new());
        let map = network(1, [exit(2), exit(3), plain()]);
        let unusable = |text: &str, map: &NetworkMap| text.parse::<ExitChoice>().unwrap().unusable(map);
        for usable in ["none", "auto", "gate2", "gate3.home", "100.64.0.2", "renamed#2"] {
            assert_eq!(unusable(usable, &map), None, "{usable}");
        }
        for (wanted, named) in [
            ("nosuch", "is called nosuch"),
            ("100.64.0.99", "has the address 100.64.0.99"),
            ("203.0.113.1", "no overlay address"),
            ("me", "its own exit node"),
            ("nas", "nas is no exit node"),
            ("gate2#77", "another node has that name"),
        ] {
            let failure = unusable(wanted, &map).unwrap();
            assert!(failure.message.contains(named), "{failure:?}");
            assert!(failure.hint.contains("one of gate2, gate3"), "{failure:?}");
        }
        assert!(unusable("gate", &map).unwrap().hint.starts_with("did you mean `gate2`?"));
        let without = network(1, [plain()]);
        for wanted in ["auto", "nosuch", "nas"] {
            let failure = unusable(wanted, &without).unwrap();
            assert!(failure.hint.contains("`taut set --advertise-exit-node`"), "{failure:?}");
            assert!(failure.to_string().contains("no member") || failure.to_string().contains("no other member"));
        }
        let many = network(1, (2..=30).map(exit));
        assert!(unusable("nosuch", &many).unwrap().hint.ends_with("gate9 and 21 more"));
    }
}
