//! Explanations of paths in sentences (law 14), from the node's counters and verdict ([`PathReport`]) and the daemon's knowledge.
//!
//! The node knows paths and probes. The daemon knows which peers are online and which relays serve the node. If no packet comes back from the peer on any path, the
//! cause is one that the daemon knows, not a NAT.

use std::time::Duration;

use taut_path::{LimitCause, Nat, Origins, PathReport, Verdict, Way, WayReport};

use super::{seconds, share};
use crate::api::{NatKind, NatStatus, PathKind, PeerStatus, RelayState, RelayStatus, RelayVia, SCHEMA, WayStatus, Why};

/// Time within which packets for the peer count as recent, five minutes: as long as the paths of a peer without traffic are kept (protocol.md 5.5).
pub(crate) const RECENT_TRAFFIC: Duration = Duration::from_secs(300);

/// Age of the latest direct packet of another peer up to which this host's network counts as working, 30 s: a quiet path in use is probed every
/// 20 s, and an older packet says nothing of a cable that was pulled since.
const WORKING_AGE: Duration = Duration::from_secs(30);

/// The facts about a peer and the network between.
pub(crate) struct Evidence<'a> {
    pub(crate) peer: &'a PeerStatus,
    /// The node's counters and verdict; `None` for stock WireGuard peers, and while the network is down.
    pub(crate) report: Option<PathReport>,
    /// True if a handshake attempt is in progress, or packets for the peer flowed or waited within the last [`RECENT_TRAFFIC`].
    pub(crate) wanted: bool,
    /// True if the coordinator is connected.
    pub(crate) connected: bool,
    /// True if another peer answers; see [`answers`].
    pub(crate) others: bool,
    pub(crate) ours: Option<NatStatus>,
    pub(crate) relays: &'a [RelayStatus],
}

/// Returns true if a direct packet of the peer arrived within the last [`WORKING_AGE`], which shows that this host's network works.
pub(crate) fn answers(report: &PathReport) -> bool {
    let is_heard = |way: &WayReport| way.heard_ago.is_some_and(|ago| ago < WORKING_AGE);
    report.ways.iter().any(|way| matches!(way.way, Way::Direct(_)) && is_heard(way))
}

/// Returns the explanation.
pub(crate) fn explain(evidence: Evidence<'_>) -> Why {
    let Explanation { cause, reason, fix } = Explanation::of(&evidence);
    let Evidence { peer, report, ours, relays, .. } = evidence;
    let mut said: Vec<String> = std::iter::once(path(peer, relays)).chain(reason).map(|text| sentence(&text)).collect();
    // The path itself is as it should be, so the problem with its MTU comes first.
    if matches!(report.as_ref().map(|report| report.verdict), Some(Verdict::TooLong { .. })) {
        said.rotate_left(1);
    }
    Why {
        schema: SCHEMA,
        peer: peer.name.clone(),
        id: peer.id,
        path: peer.path.clone(),
        round_trip_ms: peer.round_trip_ms,
        cause: cause.map(String::from),
        said,
        mend: fix.iter().map(|text| sentence(text)).collect(),
        ours,
        theirs: report.as_ref().map_or(NatKind::Unknown, |report| nat_kind(report.peer_nat)),
        session: peer.session.clone(),
        ways: report.iter().flat_map(|report| &report.ways).map(|way| way_status(way, relays)).collect(),
    }
}

/// Returns the kind of NAT, as in the API.
pub(crate) fn nat_kind(nat: Nat) -> NatKind {
    match nat {
        Nat::Unknown => NatKind::Unknown,
        Nat::Open => NatKind::None,
        Nat::Cone => NatKind::Cone,
        Nat::Symmetric | Nat::Sequential => NatKind::Symmetric,
        Nat::Blocked => NatKind::Blocked,
    }
}

/// The reason why a path is not direct, and its fix.
#[derive(Default)]
struct Explanation {
    cause: Option<&'static str>,
    reason: Option<String>,
    fix: Option<String>,
}

impl Explanation {
    fn new(cause: &'static str, reason: String, fix: String) -> Self {
        Self { cause: Some(cause), reason: Some(reason), fix: Some(fix) }
    }

    fn of(evidence: &Evidence<'_>) -> Self {
        let verdict = evidence.report.as_ref().map(|report| report.verdict);
        match (evidence.peer.path.kind, verdict) {
            (PathKind::None, _) | (_, Some(Verdict::Unreachable)) => Self::unreached(evidence, verdict),
            (_, Some(Verdict::Direct) | None) => Self::default(),
            // The path is still being chosen, so no cause is known yet.
            (PathKind::Direct, Some(Verdict::Looking)) => Self::default(),
            (_, Some(verdict)) => Self::judged(verdict),
        }
    }

    /// Returns the explanation of the node's verdict.
    fn judged(verdict: Verdict) -> Self {
        let fix = verdict.fix(cfg!(feature = "portmap"));
        Self { cause: Some(verdict.name()), reason: Some(verdict.to_string()), fix }
    }

    /// Returns the explanation for a peer from which no packet arrives: no packet was sent to it, or the peer, the relays or the network do not work.
    fn unreached(evidence: &Evidence<'_>, verdict: Option<Verdict>) -> Self {
        let Evidence { peer, relays, connected, .. } = evidence;
        let name = &peer.name;
        let bound = relays.iter().any(|relay| relay.state == RelayState::Bound);
        if peer.online == Some(false) {
            let reason = format!(
                "the coordinator does not hear from {name}: it is off, its daemon is stopped, or it has no network"
            );
            return Self::new("offline", reason, format!("switch {name} on, or look at `taut status` there"));
        }
        if !evidence.wanted && verdict != Some(Verdict::Unreachable) {
            let reason =
                String::from("nothing was sent to it lately; a path is looked for when there is a packet for it");
            return Self::new("asleep", reason, format!("no fix is needed: `taut ping {name}` makes a path"));
        }
        let nothing = format!("nothing comes back from {name} by any way");
        if verdict.is_none() {
            return Self::new(
                "unreachable",
                nothing,
                format!("run `taut status` on {name}: its daemon has to run, and has to list this host"),
            );
        }
        if !connected && !bound && evidence.others {
            let (silent, fix) = match relays.is_empty() {
                true => ("the coordinator does not answer, and the network has no relay", "the coordinator runs"),
                false => ("neither the coordinator nor a relay answers", "the coordinator and the relay run"),
            };
            let reason = format!("{nothing}, and {silent}; this host's network works, because other peers answer");
            let fix = format!(
                "see that {fix}, and that this host reaches them: `taut netcheck URL` with the coordinator's URL"
            );
            return Self::new("coordinator-unreachable", reason, fix);
        }
        if !connected && !bound {
            let reason = format!("{nothing}, and neither the coordinator nor a relay answers");
            let fix = "check this host's network first: its links, `ip route`, its firewall";
            return Self::new("no-network", reason, String::from(fix));
        }
        if relays.is_empty() {
            let reason = format!("none of {name}'s endpoints answers, and the network has no relay to fall back on");
            let fix = "run a relay that both can reach: the coordinator's own, or `taut-relay`; or let UDP in to one of the two";
            return Self::new("no-relay", reason, String::from(fix));
        }
        if !bound {
            let problem = relays.iter().find_map(|relay| relay.problem.as_deref()).unwrap_or("none has answered");
            let reason = format!("none of {name}'s endpoints answers, and no relay serves this node: {problem}");
            let fix =
                "see that a relay runs, and let UDP out to its port 3478; `taut netcheck` shows which of them answer";
            return Self::new("relay-unreachable", reason, String::from(fix));
        }
        let heard = if peer.online == Some(true) { "; the coordinator still counts it as connected" } else { "" };
        let fix = format!("look at `taut status` on {name}: it has to run, and to be bound to a relay");
        Self::new("unreachable", format!("{nothing}: it may be gone, or have lost its network{heard}"), fix)
    }
}

/// Returns the first sentence, which names the path.
fn path(peer: &PeerStatus, relays: &[RelayStatus]) -> String {
    let name = &peer.name;
    match (peer.path.kind, peer.path.endpoint, &peer.path.relay) {
        (PathKind::Direct, Some(endpoint), _) => format!("packets to {name} go directly to {endpoint}"),
        (PathKind::Direct, None, _) => format!("packets to {name} go directly to it"),
        (PathKind::Relayed, _, Some(relay)) => {
            let known = relays.iter().find(|known| known.name == *relay);
            let bridged = known.is_some_and(|known| known.via == Some(RelayVia::Websocket));
            let by =
                if bridged { "; the relay is reached by WebSocket, because it does not answer by UDP" } else { "" };
            format!("packets to {name} go through the relay {relay}, which cannot read them{by}")
        }
        (PathKind::Relayed, _, None) => format!("packets to {name} go through a relay, which cannot read them"),
        (PathKind::None, ..) => format!("there is no path to {name}"),
    }
}

/// Returns the text with a capital letter and a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    let end = if text.ends_with(['.', '?']) { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

fn way_status(way: &WayReport, relays: &[RelayStatus]) -> WayStatus {
    let endpoint = way.way.first_hop();
    let bridge = |relay: &RelayStatus| relay.websocket.as_ref().and_then(|websocket| websocket.local);
    let is_at = |relay: &&RelayStatus| relay.endpoints.contains(&endpoint) || bridge(relay) == Some(endpoint);
    let named = relays.iter().find(is_at).map(|relay| relay.name.clone());
    let meaning = way.meaning();
    WayStatus {
        endpoint,
        relay: match way.way {
            Way::Relayed { .. } => Some(named.unwrap_or_else(|| endpoint.to_string())),
            Way::Direct(_) => None,
        },
        known_from: known_from(&way.origins),
        state: String::from(meaning.name()),
        sent: way.sent,
        answered: way.answered,
        answered_elsewhere: way.answered_elsewhere,
        heard: way.peer_probes,
        last_heard_s: way.heard_ago.map(|ago| ago.as_secs_f64()),
        held_back: way.refused,
        proven_s: way.proven_for.map(|time| time.as_secs_f64()),
        // An answer through a relay names no address.
        seen_as: way.seen_as.filter(|seen| !seen.ip().is_unspecified()),
        round_trip_ms: way.round_trip.map(seconds).map(|time| time * 1e3),
        loss: way.loss.map(share),
        fits: way.fits,
        mtu: way.limit.map(|limit| limit.bytes),
        mtu_cause: way.limit.map(|limit| String::from(limit.cause.name())),
        // The meaning of a way whose limit is unknown says so already.
        meaning: match way.limit.filter(|limit| limit.cause != LimitCause::Unanswered) {
            Some(limit) => format!("{meaning}; {limit}"),
            None => meaning.to_string(),
        },
    }
}

fn known_from(origins: &Origins) -> Vec<String> {
    let all = [(origins.listed, "map"), (origins.reported, "peer"), (origins.heard, "heard"), (origins.relay, "relay")];
    all.iter().filter(|(is, _)| *is).map(|(_, name)| String::from(*name)).collect()
}

#[cfg(test)]
mod tests;
