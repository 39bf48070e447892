//! Who is meant by a name or an address on the command line.

use std::net::IpAddr;

use taut_keeper::api::{PeerStatus, State, Status};

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
        return Err(Fault::Failed(format!("`{who}` is this node itself; name another one, `taut status` lists them")));
    }
    Err(Fault::Failed(format!("there is no peer `{who}` in the network; `taut status` lists all")))
}

/// Complains unless packets can flow.
pub(crate) fn must_run(status: &Status) -> Result<(), Fault> {
    let why = match status.state {
        State::Running => return Ok(()),
        State::NeedsJoin => "this node is not a member of any network; join one with `taut up --join TOKEN`",
        State::Stopped => "taut is down; connect with `taut up`",
        State::Connecting => "taut is still connecting; `taut status` says how far it is",
    };
    Err(Fault::Failed(String::from(why)))
}
