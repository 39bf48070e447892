//! Lookup of a peer by a name or an address from the command line.

use std::net::IpAddr;

use taut_agent::api::{NodeState, PeerStatus, SelfStatus, Status};
use taut_netmap::domain;

use crate::fault::{Fault, suggestion};

/// Returns the peer with the name or overlay address `who`. A name may be followed by the network's name.
pub(crate) fn find<'a>(status: &'a Status, who: &str) -> Result<&'a PeerStatus, Fault> {
    let address: Option<IpAddr> = who.parse().ok();
    let short = short_name(status, who);
    let is_meant = |name: &str, addresses: &[IpAddr]| match address {
        Some(address) => addresses.contains(&address),
        None => name.eq_ignore_ascii_case(short),
    };
    if let Some(peer) = status.peers.iter().find(|peer| is_meant(&peer.name, &peer.addresses)) {
        return Ok(peer);
    }
    if status.me.as_ref().is_some_and(|me| is_meant(&me.name, &me.addresses)) {
        return Err(Fault::failed(
            format!("`{who}` is this node itself"),
            "name another node; `taut status` lists the peers",
        ));
    }
    let lower = short.to_ascii_lowercase();
    let meant = suggestion(&lower, status.peers.iter().map(|peer| peer.name.as_str()));
    Err(Fault::failed(format!("there is no peer `{who}` in the network{meant}"), "`taut status` lists all peers"))
}

/// Returns the name of a node without the network at its end. The network may be given by its name or by the domain that `taut hosts` prints.
pub(crate) fn short_name<'a>(status: &Status, full: &'a str) -> &'a str {
    let (Some((name, behind)), Some(network)) = (full.split_once('.'), status.network.as_deref()) else { return full };
    let is_ours = [network, &*domain(network)].iter().any(|one| one.eq_ignore_ascii_case(behind));
    if is_ours { name } else { full }
}

/// Returns an error unless packets can flow.
pub(crate) fn must_run(status: &Status) -> Result<(), Fault> {
    let (why, hint) = match status.state {
        NodeState::Running => return Ok(()),
        NodeState::NeedsJoin => ("this node is not a member of any network", "join one with `taut up --join TOKEN`"),
        NodeState::Stopped => ("taut is down", "connect with `taut up`"),
        NodeState::Connecting => ("taut is still connecting", "`taut status` shows the progress"),
    };
    Err(Fault::failed(why, hint))
}

/// Returns this node's entry in the network map, or an error if there is no map.
pub(crate) fn must_have_map(status: &Status) -> Result<&SelfStatus, Fault> {
    let hint = "join a network with `taut up --join TOKEN`";
    status.me.as_ref().ok_or_else(|| Fault::failed("this node has no network map yet", hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::sample;

    #[test]
    fn a_peer_is_found_by_name_full_name_and_address() {
        let mut status = sample();
        for who in ["n2", "N2", "n2.home", "N2.Home", "100.64.0.2", "fd00::2"] {
            assert_eq!(find(&status, who).unwrap().name, "n2", "{who}");
        }
        for who in ["n2.other", "n2.", ".home", "n2.home.home", "home", "n2.taut-home", "n1.home"] {
            assert!(find(&status, who).is_err(), "{who}");
        }
        assert_eq!(short_name(&status, "n1.home"), "n1");
        // A reserved name of a network is printed as another domain. A peer is found by both.
        status.network = Some(String::from("com"));
        for who in ["n2.com", "n2.taut-com"] {
            assert_eq!(find(&status, who).unwrap().name, "n2", "{who}");
        }
        status.network = None;
        assert!(find(&status, "n2.").is_err());
    }

    #[test]
    fn a_mistyped_peer_is_recognised() {
        let message = |who| match find(&sample(), who) {
            Err(Fault::Failed(failure)) => failure.message,
            other => panic!("{other:?}"),
        };
        assert_eq!(message("router3"), "there is no peer `router3` in the network; did you mean `router-3`?");
        assert_eq!(
            message("Ruoter-3.home"),
            "there is no peer `Ruoter-3.home` in the network; did you mean `router-3`?"
        );
        assert_eq!(message("printer"), "there is no peer `printer` in the network");
    }
}
