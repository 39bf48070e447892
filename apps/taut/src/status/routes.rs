//! The lines about subnet routes.

use taut_agent::api::{AdvertisedStatus, PeerRouteStatus, RoutesStatus};
use taut_base::Prefix;

/// Returns the rows: the routes that this host advertises, then those of its peers.
pub(super) fn rows(routes: &RoutesStatus) -> Vec<Vec<String>> {
    let row = |text| vec![String::from("route"), text];
    let peers = routes.peers.iter().map(|route| peer(route, routes.accepts));
    routes.advertised.iter().map(advertised).chain(peers).map(row).collect()
}

fn advertised(route: &AdvertisedStatus) -> String {
    let hosts = route.real.map(|real| format!(" for {real}")).unwrap_or_default();
    let state = if route.approved { "approved" } else { "waits for the operator (`taut-coordinator routes approve`)" };
    format!("{}{hosts} behind this host: {state}", route.route)
}

fn peer(route: &PeerRouteStatus, accepts: bool) -> String {
    let PeerRouteStatus { route, via, routers, hidden_by } = route;
    let others: Vec<&str> = routers.iter().map(String::as_str).filter(|name| Some(*name) != via.as_deref()).collect();
    match (via, hidden_by) {
        (Some(via), _) if others.is_empty() => format!("{route} through {via}"),
        (Some(via), _) => format!("{route} through {via}, else {}", others.join(", ")),
        (None, Some(near)) => format!("{route} behind {}: not used, {}", others.join(", "), hidden(*near)),
        (None, None) if accepts => format!("{route} behind {}: this host is a router of it, too", others.join(", ")),
        (None, None) => format!("{route} behind {}: not used; `taut set --accept-routes` uses it", others.join(", ")),
    }
}

/// Says why a route is not used that has this network, or this one address, in common with what the host needs.
pub(crate) fn hidden(near: Prefix) -> String {
    let is_host = near == Prefix::host(near.address());
    match is_host {
        true => format!(
            "it holds {}, which this host needs to reach the coordinator, a relay or its gateway",
            near.address()
        ),
        false => format!("this host is in the network {near}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_route_says_how_it_is_reached_or_why_not() {
        let prefix = |text: &str| text.parse().unwrap();
        let of = |via: Option<&str>, hidden_by: Option<&str>| PeerRouteStatus {
            route: prefix("10.1.0.0/24"),
            via: via.map(String::from),
            routers: vec![String::from("a"), String::from("b")],
            hidden_by: hidden_by.map(prefix),
        };
        let mapped =
            AdvertisedStatus { route: prefix("10.201.0.0/24"), real: Some(prefix("10.1.0.0/24")), approved: false };
        assert_eq!(
            advertised(&mapped),
            "10.201.0.0/24 for 10.1.0.0/24 behind this host: waits for the operator (`taut-coordinator routes approve`)"
        );
        assert_eq!(peer(&of(Some("b"), None), true), "10.1.0.0/24 through b, else a");
        assert_eq!(
            peer(&of(None, Some("10.1.0.0/16")), true),
            "10.1.0.0/24 behind a, b: not used, this host is in the network 10.1.0.0/16"
        );
        assert!(peer(&of(None, Some("10.1.0.9/32")), true).contains("it holds 10.1.0.9, which this host needs"));
        assert!(peer(&of(None, None), false).ends_with("`taut set --accept-routes` uses it"));
    }
}
