//! Who is meant by a name or an address on the command line.

use std::net::IpAddr;

use taut_keeper::api::{PeerStatus, SelfStatus, State, Status};

use crate::fault::Fault;

/// The peer that goes by `who`: a name, or one of its overlay addresses.
pub(crate) fn find<'a>(status: &'a Status, who: &str) -> Result<&'a PeerStatus, Fault> {
    let address: Option<IpAddr> = who.parse().ok();
    let is_meant = |name: &str, addresses: &[IpAddr]| match address {
        Some(address) => addresses.contains(&address),
        None => name.eq_ignore_ascii_case(who),
    };
    if let Some(peer) = status.peers.iter().find(|peer| is_meant(&peer.name, &peer.addresses)) {
        return Ok(peer);
    }
    if status.me.as_ref().is_some_and(|me| is_meant(&me.name, &me.addresses)) {
        return Err(Fault::failed(
            format!("`{who}` is this node itself"),
            "name another one; `taut status` lists them",
        ));
    }
    Err(Fault::failed(format!("there is no peer `{who}` in the network"), "`taut status` lists all"))
}

/// Fails unless packets can flow.
pub(crate) fn must_run(status: &Status) -> Result<(), Fault> {
    let (why, hint) = match status.state {
        State::Running => return Ok(()),
        State::NeedsJoin => ("this node is not a member of any network", "join one with `taut up --join TOKEN`"),
        State::Stopped => ("taut is down", "connect with `taut up`"),
        State::Connecting => ("taut is still connecting", "`taut status` says how far it is"),
    };
    Err(Fault::failed(why, hint))
}

/// Returns this node as its network map has it; fails while there is no map.
pub(crate) fn must_have_map(status: &Status) -> Result<&SelfStatus, Fault> {
    let hint = "join a network with `taut up --join TOKEN`";
    status.me.as_ref().ok_or_else(|| Fault::failed("no network map is known yet", hint))
}
