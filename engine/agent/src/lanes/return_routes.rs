//! Routes back to peers, from the local address that each peer sends to.
//!
//! A lane answers from that address (`locals.rs` in engine/lane). When a host moves to another network and keeps its old address for a while, or when it loses the
//! route behind that address, packets from the old address are lost. The kernel's routes then have to choose the address again.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use taut_base::SortedSet;
use taut_netlink::{Netlink, NetlinkError};
use taut_udp::Local;

/// The interface of the route at the last check, for each endpoint and the local address that it sends to.
#[derive(Default)]
pub(crate) struct ReturnRoutes {
    seen: HashMap<(SocketAddr, Local), u32>,
}

impl ReturnRoutes {
    /// Checks the routes of packets with this mark. Returns the endpoints without a route, those whose route changed since the last check (at the first check: whose route
    /// differs from the interface that their packets came in by), and those whose local address is not in `own`, the host's addresses if they are known.
    pub(crate) fn check(
        &mut self,
        netlink: &mut Netlink,
        mark: u32,
        own: Option<&SortedSet<IpAddr>>,
        locals: Vec<(SocketAddr, Local)>,
    ) -> Vec<SocketAddr> {
        self.compare(own, locals, |from, to| netlink.way(from, to, mark))
    }

    fn compare(
        &mut self,
        own: Option<&SortedSet<IpAddr>>,
        locals: Vec<(SocketAddr, Local)>,
        mut way: impl FnMut(IpAddr, IpAddr) -> Result<Option<u32>, NetlinkError>,
    ) -> Vec<SocketAddr> {
        let before = std::mem::take(&mut self.seen);
        let mut changed = Vec::new();
        for (place, local) in locals {
            // IPv6 routes do not depend on whether the source address is the host's, and a host that may send from foreign addresses (ip_nonlocal_bind)
            // would continue to send from an address that is gone (fault D19).
            if own.is_some_and(|own| !own.contains(&local.address)) {
                changed.push(place);
                continue;
            }
            // A link-local endpoint names its interface.
            if matches!(place, SocketAddr::V6(place) if place.scope_id() != 0) {
                continue;
            }
            let former = before.get(&(place, local)).copied().unwrap_or(local.interface);
            match way(local.address, place.ip()) {
                Ok(Some(now)) => {
                    self.seen.insert((place, local), now);
                    if now != former {
                        changed.push(place);
                    }
                }
                Ok(None) => changed.push(place),
                // An error is not an empty answer (law 6).
                Err(_) => {
                    self.seen.insert((place, local), former);
                }
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(interface: u32) -> Local {
        Local { address: IpAddr::from([10, 0, 0, 2]), interface }
    }

    fn place(number: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, number], 1))
    }

    fn check(routes: &mut ReturnRoutes, locals: &[(SocketAddr, Local)], now: Option<u32>) -> Vec<SocketAddr> {
        routes.compare(None, locals.to_vec(), |from, to| {
            assert_eq!((from, to), (locals[0].1.address, place(1).ip()));
            Ok(now)
        })
    }

    #[test]
    fn another_interface_or_no_route_is_a_change() {
        let (mut routes, locals) = (ReturnRoutes::default(), [(place(1), local(3))]);
        assert_eq!(check(&mut routes, &locals, Some(3)), []);
        assert_eq!(check(&mut routes, &locals, Some(4)), [place(1)]);
        // The peer sends to the same address again: the changed route is known now.
        assert_eq!(check(&mut routes, &locals, Some(4)), []);
        assert_eq!(check(&mut routes, &locals, None), [place(1)]);
        assert_eq!(check(&mut routes, &locals, Some(4)), [place(1)], "the former route was forgotten");
        assert_eq!(
            check(&mut routes, &[(place(1), local(5))], Some(4)),
            [place(1)],
            "the route differs from the interface that packets came in by"
        );
    }

    #[test]
    fn an_error_changes_nothing() {
        let (mut routes, locals) = (ReturnRoutes::default(), [(place(1), local(3))]);
        assert_eq!(check(&mut routes, &locals, Some(4)), [place(1)]);
        let failed = routes.compare(None, locals.to_vec(), |_, _| Err(NetlinkError::Unsettled { operation: "ask" }));
        assert_eq!(failed, []);
        assert_eq!(check(&mut routes, &locals, Some(4)), []);
    }

    #[test]
    fn link_local_endpoints_name_their_interface() {
        let mut routes = ReturnRoutes::default();
        let locals = vec![("[fe80::1%7]:1".parse().unwrap(), local(3))];
        assert_eq!(routes.compare(None, locals, |_, _| Ok(None)), []);
    }

    #[test]
    fn fault_d19_an_address_that_the_host_lost_is_left_though_a_route_leads_there() {
        let (mut routes, here) = (ReturnRoutes::default(), SortedSet::from([local(3).address]));
        let link_local: SocketAddr = "[fe80::1%7]:1".parse().unwrap();
        let locals = [(place(1), local(3)), (link_local, local(3))];
        let mut check = |own: Option<&SortedSet<IpAddr>>| routes.compare(own, locals.to_vec(), |_, _| Ok(Some(3)));
        assert_eq!(check(Some(&here)), []);
        assert_eq!(check(Some(&SortedSet::new())), [place(1), link_local]);
        assert_eq!(check(None), [], "unknown addresses do not count as lost");
    }
}
