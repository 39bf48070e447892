//! The subnet routes for users.

use taut_base::{Prefix, SortedMap};
use taut_netmap::NetworkMap;

use crate::api::{AdvertisedStatus, PeerRouteStatus, RoutesStatus};
use crate::overlay::Overlay;
use crate::subnets::{AdvertisedRoute, RouteOptions};

/// Returns the routes of this node and of its peers.
pub(crate) fn routes(map: &NetworkMap, options: &RouteOptions, overlay: Option<&Overlay>) -> RoutesStatus {
    let in_force = options.in_force(map);
    let advertised = |route: &AdvertisedRoute| AdvertisedStatus {
        route: route.published,
        real: route.is_mapped().then_some(route.real),
        approved: in_force.contains(route),
    };
    let carriers: SortedMap<Prefix, String> = overlay.into_iter().flat_map(carriers).collect();
    let hidden: SortedMap<Prefix, Prefix> = overlay.into_iter().flat_map(Overlay::hidden_routes).collect();
    let all = map.peers.values().flat_map(|peer| peer.usable_routes(&map.network));
    let mut routers: SortedMap<Prefix, Vec<String>> = all.map(|route| (route, Vec::new())).collect();
    for peer in map.peers.values() {
        peer.usable_routes(&map.network).for_each(|route| routers.entry(route).or_default().push(peer.name.clone()));
    }
    let peers = routers.into_iter().map(|(route, routers)| PeerRouteStatus {
        route,
        via: carriers.get(&route).cloned(),
        routers,
        hidden_by: hidden.get(&route).copied(),
    });
    RoutesStatus {
        advertised: options.advertise.iter().map(advertised).collect(),
        accepts: options.accept,
        peers: peers.collect(),
    }
}

fn carriers(overlay: &Overlay) -> impl Iterator<Item = (Prefix, String)> {
    let node = overlay.node();
    node.carriers().filter_map(|(route, peer)| Some((route, String::from(node.peer_name(peer)?.1))))
}
