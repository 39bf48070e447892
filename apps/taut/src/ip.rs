//! `taut ip`: prints overlay addresses, for scripts.

use std::net::IpAddr;

use serde::Serialize;
use taut_agent::api::{SCHEMA, Status};

use crate::fault::Fault;
use crate::flags::{Word, Words, default_socket, unexpected};
use crate::{client, output, peers};

pub(crate) fn run(mut words: Words) -> Result<(), Fault> {
    let (mut socket, mut peer, mut json) = (default_socket(), None, false);
    let (mut only_v4, mut only_v6) = (false, false);
    while let Some(word) = words.next()? {
        match word {
            Word::Flag(flag) if flag == "--socket" => socket = words.value()?.into(),
            Word::Flag(flag) if flag == "--json" => json = true,
            Word::Flag(flag) if flag == "-4" => only_v4 = true,
            Word::Flag(flag) if flag == "-6" => only_v6 = true,
            Word::Value(name) if peer.is_none() => peer = Some(name),
            other => return Err(unexpected(&other)),
        }
    }
    if only_v4 && only_v6 {
        return Err(Fault::usage("-4 and -6 exclude each other"));
    }
    let status = client::status(&socket)?;
    let wanted = |address: &IpAddr| (!only_v4 || address.is_ipv4()) && (!only_v6 || address.is_ipv6());
    let found: Vec<IpAddr> = addresses(&status, peer.as_deref())?.iter().copied().filter(wanted).collect();
    if found.is_empty() {
        return Err(Fault::failed("there is no address of that kind", "`taut status` lists all addresses"));
    }
    if json {
        output::print_json(&Addresses { schema: SCHEMA, addresses: found })
    } else {
        let lines: Vec<String> = found.iter().map(IpAddr::to_string).collect();
        output::print(&lines.join("\n"))
    }
}

#[derive(Serialize)]
struct Addresses {
    schema: u32,
    addresses: Vec<IpAddr>,
}

fn addresses<'a>(status: &'a Status, peer: Option<&str>) -> Result<&'a [IpAddr], Fault> {
    let me = peers::must_have_map(status)?;
    match peer {
        None => Ok(&me.addresses),
        Some(name) if peers::short_name(status, name).eq_ignore_ascii_case(&me.name) => Ok(&me.addresses),
        Some(name) => peers::find(status, name).map(|peer| peer.addresses.as_slice()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_node_and_peers_are_found_by_short_and_full_names() {
        let status = crate::status::sample();
        for (who, first) in [("n1", "100.64.0.1"), ("n1.home", "100.64.0.1"), ("n2.home", "100.64.0.2")] {
            assert_eq!(addresses(&status, Some(who)).unwrap()[0].to_string(), first, "{who}");
        }
        assert!(addresses(&status, Some("n1.other")).is_err());
    }
}
