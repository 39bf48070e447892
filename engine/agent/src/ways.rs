//! Whether packets to a peer still go the way that its own came, when they leave from the address that it speaks to.
//!
//! A lane answers from that address (its `locals.rs`). When a host changes from one network to another and keeps its old address for a while, or
//! loses the route behind it, packets with the old address lead nowhere: then the routes have to choose again.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};

use taut_netlink::{Netlink, NetlinkError};
use taut_udp::Local;

/// What the routes said at the last look, of each place and the address of ours that it speaks to.
#[derive(Default)]
pub(crate) struct Ways {
    seen: HashMap<(SocketAddr, Local), u32>,
}

impl Ways {
    /// Looks again, for packets with this mark. Returns the places to which another way leads now than before, or than theirs to us at the first
    /// look, or none; and those whose address of ours is none of `own`, the addresses that the host has, where they are known.
    pub(crate) fn look(
        &mut self,
        netlink: &mut Netlink,
        mark: u32,
        own: Option<&BTreeSet<IpAddr>>,
        locals: Vec<(SocketAddr, Local)>,
    ) -> Vec<SocketAddr> {
        self.compare(own, locals, |from, to| netlink.way(from, to, mark))
    }

    fn compare(
        &mut self,
        own: Option<&BTreeSet<IpAddr>>,
        locals: Vec<(SocketAddr, Local)>,
        mut way: impl FnMut(IpAddr, IpAddr) -> Result<Option<u32>, NetlinkError>,
    ) -> Vec<SocketAddr> {
        let before = std::mem::take(&mut self.seen);
        let mut changed = Vec::new();
        for (place, local) in locals {
            // The routes of IPv6 do not ask whether a source address is the host's, and a host that may send from foreign addresses
            // (ip_nonlocal_bind) would go on sending from one that is gone (fault D19).
            if own.is_some_and(|own| !own.contains(&local.address)) {
                changed.push(place);
                continue;
            }
            // The place itself names the interface.
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

    fn look(ways: &mut Ways, locals: &[(SocketAddr, Local)], now: Option<u32>) -> Vec<SocketAddr> {
        ways.compare(None, locals.to_vec(), |from, to| {
            assert_eq!((from, to), (locals[0].1.address, place(1).ip()));
            Ok(now)
        })
    }

    #[test]
    fn another_interface_or_none_is_another_way() {
        let (mut ways, locals) = (Ways::default(), [(place(1), local(3))]);
        assert_eq!(look(&mut ways, &locals, Some(3)), []);
        assert_eq!(look(&mut ways, &locals, Some(4)), [place(1)]);
        // The peer spoke to the same address again: it is known now that the way back is another one.
        assert_eq!(look(&mut ways, &locals, Some(4)), []);
        assert_eq!(look(&mut ways, &locals, None), [place(1)]);
        assert_eq!(look(&mut ways, &locals, Some(4)), [place(1)], "forgotten meanwhile");
        assert_eq!(
            look(&mut ways, &[(place(1), local(5))], Some(4)),
            [place(1)],
            "not by the interface that it came in by"
        );
    }

    #[test]
    fn an_error_changes_nothing() {
        let (mut ways, locals) = (Ways::default(), [(place(1), local(3))]);
        assert_eq!(look(&mut ways, &locals, Some(4)), [place(1)]);
        let failed = ways.compare(None, locals.to_vec(), |_, _| Err(NetlinkError::Unsettled { operation: "ask" }));
        assert_eq!(failed, []);
        assert_eq!(look(&mut ways, &locals, Some(4)), []);
    }

    #[test]
    fn link_local_places_name_their_interface() {
        let mut ways = Ways::default();
        let locals = vec![("[fe80::1%7]:1".parse().unwrap(), local(3))];
        assert_eq!(ways.compare(None, locals, |_, _| Ok(None)), []);
    }

    #[test]
    fn fault_d19_an_address_that_the_host_lost_is_left_though_a_route_leads_there() {
        let (mut ways, here) = (Ways::default(), BTreeSet::from([local(3).address]));
        let link_local: SocketAddr = "[fe80::1%7]:1".parse().unwrap();
        let locals = [(place(1), local(3)), (link_local, local(3))];
        let mut look = |own: Option<&BTreeSet<IpAddr>>| ways.compare(own, locals.to_vec(), |_, _| Ok(Some(3)));
        assert_eq!(look(Some(&here)), []);
        assert_eq!(look(Some(&BTreeSet::new())), [place(1), link_local]);
        assert_eq!(look(None), [], "not known is not gone");
    }
}
