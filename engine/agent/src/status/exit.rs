//! The exit node for users: which one is used, or why none is.

use std::net::IpAddr;
use std::time::Duration;

use taut_base::{PeerId, is_internet};
use taut_netmap::{NetworkMap, Peer, has_exit};
use taut_node::ExitRoute;

use crate::api::{ExitStatus, Failure, SeenAddress};
use crate::exit::ExitChoice;
use crate::overlay::Overlay;
use crate::subnets::RouteOptions;

/// Returns the exit node in use, and whether this node is one.
pub(crate) fn exit(
    map: &NetworkMap,
    options: &RouteOptions,
    overlay: Option<&Overlay>,
    paused: Option<Duration>,
) -> ExitStatus {
    let paused = paused.filter(|_| options.exit_node.is_on());
    let via = overlay.and_then(|overlay| match overlay.node().exit() {
        ExitRoute::Through(peer) => Some((peer, String::from(overlay.node().peer_name(peer)?.1))),
        _ => None,
    });
    let seen_as = overlay.and_then(|overlay| Some(seen_as(map, overlay, via.as_ref()?.0))).unwrap_or_default();
    let present = overlay.filter(|_| paused.is_none());
    let problem = present.and_then(|overlay| problem(map, &options.exit_node, overlay, via.as_ref()));
    let approved = has_exit(&map.me.routes);
    ExitStatus {
        chosen: String::from(options.exit_node.written()),
        via: via.map(|(_, name)| name),
        paused_s: paused.map(|left| left.as_secs_f64().round()),
        seen_as,
        problem,
        unusable: options.exit_node.unusable(map),
        candidates: map.peers.values().filter(|peer| peer.is_exit()).map(|peer| peer.name.clone()).collect(),
        advertised: options.advertise_exit_node,
        approved: options.advertise_exit_node && approved,
        is_exit: overlay.is_some_and(Overlay::is_exit),
        users: if approved { map.peers.values().filter(|peer| may_use(map, peer)).count() } else { 0 },
    }
}

/// Returns the addresses that the internet sees: those that were measured, and for the other family those at which the map lists the exit node.
fn seen_as(map: &NetworkMap, overlay: &Overlay, via: PeerId) -> Vec<SeenAddress> {
    let measured: Vec<IpAddr> = overlay.seen_by_the_internet().collect();
    let node = overlay.node().peer_name(via).map(|(node, _)| node);
    let listed = node.and_then(|node| map.peers.get(&node)).into_iter().flat_map(|peer| &peer.endpoints);
    let mut all: Vec<SeenAddress> =
        measured.iter().map(|address| SeenAddress { address: *address, measured: true }).collect();
    for address in listed.map(|endpoint| endpoint.ip()).filter(|address| is_internet(*address)) {
        if !all.iter().any(|seen| seen.address.is_ipv4() == address.is_ipv4()) {
            all.push(SeenAddress { address, measured: false });
        }
    }
    all.sort_by_key(|seen| seen.address.is_ipv6());
    all
}

/// Returns the warning of a host that offers to be an exit node and uses another one.
pub(crate) fn exit_warning(options: &RouteOptions) -> Option<Failure> {
    (options.advertise_exit_node && options.exit_node.is_on()).then(|| {
        Failure::new(
            "this host is no exit node, because it uses another one itself",
            "run `taut set --exit-node none`, or `taut set --advertise-exit-node=false`",
        )
    })
}

/// Returns true if the filter of this node lets a peer send something to the internet.
fn may_use(map: &NetworkMap, peer: &Peer) -> bool {
    let Some(filter) = &map.filter else { return true };
    let public = filter.rules.iter().filter(|rule| rule.dst.iter().any(|dst| is_internet(dst.prefix.address())));
    let mut sources = public.flat_map(|rule| &rule.src);
    sources.any(|source| peer.addresses.iter().any(|address| source.contains(*address)))
}

/// Returns why packets to the internet do not get there, although the user chose an exit node.
fn problem(
    map: &NetworkMap,
    choice: &ExitChoice,
    overlay: &Overlay,
    via: Option<&(PeerId, String)>,
) -> Option<Failure> {
    let closed = "until then nothing is sent to the internet; `taut set --exit-node none` ends that";
    if let Some((id, name)) = via {
        let peer = overlay.node().peers().find(|peer| peer.id == *id)?;
        let is_silent = peer.path.as_ref().is_some_and(|path| path.silent) || peer.session.is_none() && peer.is_silent;
        return is_silent.then(|| {
            let message = format!("the exit node {name} does not answer, so nothing reaches the internet");
            let another = match choice {
                ExitChoice::Auto => "another one is used as soon as one answers",
                _ => "`taut set --exit-node auto` chooses another one",
            };
            Failure::new(message, format!("`taut why {name}` says more; {another}; {closed}"))
        });
    }
    if let Some(Failure { message, hint }) = choice.unusable(map) {
        return Some(Failure::new(format!("{message}, so nothing reaches the internet"), format!("{hint}; {closed}")));
    }
    (*choice == ExitChoice::Auto).then(|| {
        Failure::new(
            "the exit nodes are being compared, or none answers: nothing reaches the internet",
            format!("`taut status` shows who answers; {closed}"),
        )
    })
}
