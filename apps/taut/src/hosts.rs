//! `taut hosts`: names and addresses as `/etc/hosts` writes them.

use std::net::IpAddr;

use serde::Serialize;
use taut_keeper::api::{SCHEMA, Status};

use crate::fault::Fault;
use crate::flags::{Word, Words, default_socket, unexpected};
use crate::{client, output, peers};

pub(crate) fn run(mut words: Words) -> Result<(), Fault> {
    let (mut socket, mut json) = (default_socket(), false);
    while let Some(word) = words.next()? {
        match word {
            Word::Flag(flag) if flag == "--json" => json = true,
            Word::Flag(flag) if flag == "--socket" => socket = words.value()?.into(),
            other => return Err(unexpected(&other)),
        }
    }
    let status = client::status(&socket)?;
    peers::must_have_map(&status)?;
    if json {
        output::print_json(&Hosts { schema: SCHEMA, hosts: hosts(&status).collect() });
    } else {
        output::print(&render(&status));
    }
    Ok(())
}

#[derive(Serialize)]
struct Hosts<'a> {
    schema: u32,
    hosts: Vec<Host<'a>>,
}

#[derive(Serialize)]
struct Host<'a> {
    name: &'a str,
    addresses: &'a [IpAddr],
}

/// This node, then the others by name.
fn hosts(status: &Status) -> impl Iterator<Item = Host<'_>> {
    let me = status.me.iter().map(|me| Host { name: &me.name, addresses: &me.addresses });
    me.chain(status.peers.iter().map(|peer| Host { name: &peer.name, addresses: &peer.addresses }))
}

fn render(status: &Status) -> String {
    hosts(status)
        .flat_map(|host| host.addresses.iter().map(move |address| format!("{address} {}\n", host.name)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_with_all_addresses() {
        assert_eq!(
            render(&crate::status::sample()),
            "100.64.0.1 n1\nfd00::1 n1\n100.64.0.2 n2\nfd00::2 n2\n100.64.0.3 router-3\n"
        );
    }
}
