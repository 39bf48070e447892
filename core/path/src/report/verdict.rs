//! The explanation of a peer's path, concluded from all candidates.

use core::fmt;
use std::string::String;

use super::{LimitCause, LocalNetwork, Meaning, WayReport};
use crate::families::Families;
use crate::nat::Nat;
use crate::search::SearchProgress;
use crate::way::Way;

/// The smallest MTU of the TUN, and the bytes around an inner packet: outer header, UDP and WireGuard.
const LEAST: u16 = taut_base::MIN_MTU;
const OVERHEAD_V4: u16 = 20 + 8 + 32;
const OVERHEAD_V6: u16 = 40 + 8 + 32;

/// The explanation of a peer's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The path is direct.
    Direct,
    /// No data flows; the next packet starts probing.
    Asleep,
    /// Relayed while direct paths are being tried.
    Looking,
    /// Relayed: no endpoint of the peer is known.
    NoCandidates,
    /// Relayed: UDP is blocked on one side.
    Blocked {
        /// True if UDP is blocked on this side.
        ours: bool,
    },
    /// Relayed: both NATs give each destination another port.
    BothHard,
    /// Relayed: one NAT gives each destination another port, and the other's filter lets in only known ports.
    OneHard {
        /// True if the NAT on this side is the symmetric one.
        ours: bool,
        /// The progress of the port search.
        guessed: SearchProgress,
    },
    /// Relayed: the two ends have no address family in common.
    NoCommonFamily {
        /// True if this host has IPv4, and the peer IPv6.
        ours_v4: bool,
    },
    /// Relayed: both are behind one NAT, which does not support hairpinning.
    NoHairpin,
    /// Relayed: both are behind one NAT and in one network, where something drops packets.
    Neighbour,
    /// Relayed: one direction works.
    OneWay,
    /// Relayed: the direct path worked and went down.
    Died,
    /// Relayed: the direct path loses too much.
    Poor,
    /// Relayed: the direct path answers probes and carries no data.
    NoData,
    /// On the path in use short probes are answered, and none of the length of a packet is: the path's MTU could not be found.
    TooLong {
        /// Bytes of the longest packet that is assumed to pass.
        fits: u16,
    },
    /// Relayed: nothing comes back on any direct path.
    Filtered,
    /// No path: nothing comes back on any.
    Unreachable,
}

impl Verdict {
    pub(crate) fn of(
        way: Option<Way>,
        ways: &[WayReport],
        asleep: bool,
        peer_nat: Nat,
        families: Families,
        guessed: SearchProgress,
        here: &LocalNetwork<'_>,
    ) -> Self {
        let direct = || ways.iter().filter(|way| !way.way.is_relayed());
        let any = |meaning: Meaning| direct().any(|way| way.meaning() == meaning);
        // A NAT for IPv4 explains nothing if one of the two ends has no IPv4 address.
        let by_v4 = direct().any(|way| way.family && way.way.first_hop().is_ipv4());
        let (ours, theirs) = (here.nat, peer_nat);
        let unanswered = ways.iter().filter(|way| way.in_use).filter_map(|way| way.limit);
        let assumed = unanswered.filter(|limit| limit.cause == LimitCause::Unanswered).map(|limit| limit.bytes).min();
        let is_direct = way.is_some_and(|way| !way.is_relayed());
        match way {
            _ if asleep => Self::Asleep,
            _ if assumed.is_some() => Self::TooLong { fits: assumed.unwrap_or_default() },
            _ if !ways.iter().any(WayReport::may_carry) => Self::Unreachable,
            _ if is_direct && direct().any(|way| way.in_use && way.proven_for.is_some()) => Self::Direct,
            // No path is in use, or a direct one that is not proven now: another choice follows.
            None | Some(Way::Direct(_)) => Self::Looking,
            _ if direct().next().is_none() => Self::NoCandidates,
            _ if any(Meaning::Lossy) => Self::Poor,
            _ if any(Meaning::NoData) => Self::NoData,
            _ if any(Meaning::Trying) || any(Meaning::Judged) || any(Meaning::Limited) => Self::Looking,
            _ if !direct().any(|way| way.family) => Self::NoCommonFamily { ours_v4: families.v4 },
            _ if ours == Nat::Blocked || theirs == Nat::Blocked => Self::Blocked { ours: ours == Nat::Blocked },
            _ if any(Meaning::Died) => Self::Died,
            // Only behind one NAT does an address in a network of this host belong to the peer. Otherwise it belongs to another network with equal
            // addresses.
            _ if any(Meaning::Hairpin) && direct().any(WayReport::is_silent_neighbour) => Self::Neighbour,
            _ if any(Meaning::Hairpin) => Self::NoHairpin,
            _ if by_v4 && ours.is_hard() && theirs.is_hard() => Self::BothHard,
            _ if by_v4 && ours.is_hard() != theirs.is_hard() => Self::OneHard { ours: ours.is_hard(), guessed },
            _ if any(Meaning::OneWay) => Self::OneWay,
            _ => Self::Filtered,
        }
    }

    /// Returns the name for JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Asleep => "asleep",
            Self::Looking => "looking",
            Self::NoCandidates => "no-candidates",
            Self::Blocked { .. } => "udp-blocked",
            Self::BothHard => "both-symmetric",
            Self::OneHard { .. } => "one-symmetric",
            Self::NoCommonFamily { .. } => "no-common-family",
            Self::NoHairpin => "no-hairpin",
            Self::Neighbour => "neighbour",
            Self::OneWay => "one-way",
            Self::Died => "died",
            Self::Poor => "poor",
            Self::NoData => "no-data",
            Self::TooLong { .. } => "mtu",
            Self::Filtered => "filtered",
            Self::Unreachable => "unreachable",
        }
    }

    /// Returns how to fix it; `None` if nothing is wrong. `maps` is true if this node is able to ask its router for a port mapping.
    pub fn fix(self, maps: bool) -> Option<String> {
        let one = |ours: bool| if ours { "here" } else { "at the peer" };
        let port = "enable port mapping (UPnP, NAT-PMP or PCP) on the router, forward a UDP port, or use IPv6";
        let unmapped = "forward a UDP port on the router, or use IPv6";
        Some(match self {
            Self::Direct | Self::Asleep | Self::Looking => return None,
            Self::NoCandidates => "run `taut status` on the peer: it has reported no address that other hosts may send to".into(),
            Self::Blocked { ours } => format!("let UDP out {}; until then the relay carries everything", one(ours)),
            Self::BothHard => format!("on one of the two sides: {port}"),
            Self::OneHard { ours, .. } => {
                let port = if ours && !maps { unmapped } else { port };
                format!("{}: {port}; or the same on the other side", one(ours))
            }
            Self::NoCommonFamily { .. } => "give both hosts an address of one family".into(),
            Self::NoHairpin => "let the networks behind that NAT reach each other, enable NAT loopback (hairpin) on it, or use IPv6".into(),
            Self::Neighbour => "let UDP in on both hosts, to the ports in the table, and check that the network does not isolate its hosts".into(),
            Self::OneWay => "look for a firewall that drops one direction: UDP must pass both ways between the addresses above".into(),
            Self::Died => "nothing, if a link or NAT was just changed: the path is tried again all the time; otherwise check what changed between the two hosts".into(),
            Self::Poor => "check the link: the path is used again as soon as the loss ends".into(),
            Self::NoData => "look for a filter between the two hosts that lets short packets pass and drops others".into(),
            Self::TooLong { .. } => format!(
                "if large transfers hang, start both nodes with a smaller `--mtu` (`taut down`, then `taut up --mtu {LEAST}`), and look for a filter that drops long UDP packets; \
                 `--mtu {LEAST}` needs a link that carries {} bytes over IPv4, or {} over IPv6",
                LEAST + OVERHEAD_V4,
                LEAST + OVERHEAD_V6
            ),
            Self::Filtered => format!("let UDP in on one side, or {port}"),
            Self::Unreachable => "check that the peer runs, and run `taut status` there".into(),
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |ours: &bool| if *ours { "on this side" } else { "on the peer's side" };
        match self {
            Self::Direct => f.write_str("direct"),
            Self::Asleep => f.write_str("no data flows between the two; the next packet goes through a relay at once, and direct paths are tried then"),
            Self::Looking => f.write_str("direct paths are being tried"),
            Self::NoCandidates => f.write_str("no address of the peer is known"),
            Self::Blocked { ours } => write!(f, "no UDP datagram is answered {}", side(ours)),
            Self::BothHard => f.write_str(
                "symmetric NAT on both sides; neither can tell the other its port, and there are too many pairs of ports to guess",
            ),
            Self::OneHard { ours, guessed } => {
                write!(f, "symmetric NAT {}, and the other side lets in only ports that it knows; ", side(ours))?;
                guessed.fmt(f)
            }
            Self::NoCommonFamily { ours_v4 } => {
                let (ours, theirs) = if *ours_v4 { ("IPv4", "IPv6") } else { ("IPv6", "IPv4") };
                write!(f, "no common address family: this host has {ours} only, and only {theirs} addresses of the peer are known")
            }
            Self::NoHairpin => f.write_str("both are behind one NAT, which does not send packets back inside"),
            Self::Neighbour => f.write_str("the peer is in a network of this host, and something drops the packets between the two"),
            Self::OneWay => f.write_str("direct packets pass in one direction only"),
            Self::Died => f.write_str("the direct path stopped working"),
            Self::Poor => f.write_str("the direct path loses too much"),
            Self::NoData => f.write_str("the direct path answers probes and carries no data"),
            Self::TooLong { fits } => write!(f, "a problem with the MTU: no probe as long as a packet is answered, so packets of more than {fits} bytes may be lost, unless `--mtu` limits them"),
            Self::Filtered => f.write_str("no direct packet is answered; a firewall on one side or both drops them"),
            Self::Unreachable => f.write_str("nothing comes back on any path"),
        }
    }
}
