//! `taut hosts`: prints names and addresses in the format of `/etc/hosts`.
//!
//! A name is printed with the network's name at its end, such as `web.default`. Members choose their own names, so a short name could override a name that programs
//! on this host look up (fault E20). Short names are printed on request.

use std::borrow::Cow;
use std::net::IpAddr;

use serde::Serialize;
use taut_agent::api::{SCHEMA, Status};
use taut_base::NodeId;
use taut_netmap::{display_name, domain};

use crate::fault::Fault;
use crate::flags::{Word, Words, default_socket, unexpected};
use crate::{client, output, peers};

pub(crate) const ARGUMENTS: &str = "[--short] [--json] [--socket PATH]";

pub(crate) const DETAILS: &str = "Prints one line per address, with this node's own: ADDRESS NAME.NETWORK.\n\n\
     --short   print NAME alone; in /etc/hosts it takes precedence over DNS, for every program on this host\n\
     --json    print both forms of each name, with a schema version";

pub(crate) fn run(mut words: Words) -> Result<(), Fault> {
    let (mut socket, mut json, mut short) = (default_socket(), false, false);
    while let Some(word) = words.next()? {
        match word {
            Word::Flag(flag) if flag == "--json" => json = true,
            Word::Flag(flag) if flag == "--short" => short = true,
            Word::Flag(flag) if flag == "--socket" => socket = words.value()?.into(),
            other => return Err(unexpected(&other)),
        }
    }
    let status = client::status(&socket)?;
    peers::must_have_map(&status)?;
    if json {
        output::print_json(&Hosts { schema: SCHEMA, hosts: hosts(&status).collect() })
    } else {
        output::print(&render(&status, short))
    }
}

#[derive(Serialize)]
struct Hosts<'a> {
    schema: u32,
    hosts: Vec<Host<'a>>,
}

#[derive(Serialize)]
struct Host<'a> {
    name: Cow<'a, str>,
    /// The name with the network's domain at its end.
    full_name: String,
    addresses: &'a [IpAddr],
}

/// Returns this node, then the peers by name. Reserved names are replaced, because a daemon of release 0.1.0 does not replace them.
fn hosts(status: &Status) -> impl Iterator<Item = Host<'_>> {
    let domain = domain(status.network.as_deref().unwrap_or("taut"));
    let me = status.me.iter().map(|me| (me.id, &me.name, &me.addresses));
    me.chain(status.peers.iter().map(|peer| (peer.id, &peer.name, &peer.addresses))).map(
        move |(id, name, addresses)| {
            let name = display_name(NodeId(id), name);
            Host { full_name: format!("{name}.{domain}"), name, addresses }
        },
    )
}

fn render(status: &Status, short: bool) -> String {
    let mut text = String::new();
    for host in hosts(status) {
        let name = if short { &*host.name } else { &host.full_name };
        for address in host.addresses {
            text.push_str(&format!("{address} {name}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::sample;

    #[test]
    fn every_member_with_all_addresses() {
        assert_eq!(
            render(&sample(), false),
            "100.64.0.1 n1.home\nfd00::1 n1.home\n100.64.0.2 n2.home\nfd00::2 n2.home\n100.64.0.3 router-3.home\n"
        );
        assert_eq!(
            render(&sample(), true),
            "100.64.0.1 n1\nfd00::1 n1\n100.64.0.2 n2\nfd00::2 n2\n100.64.0.3 router-3\n"
        );
        let json = serde_json::to_value(hosts(&sample()).collect::<Vec<_>>()).unwrap();
        assert_eq!((&json[0]["name"], &json[0]["full_name"]), (&"n1".into(), &"n1.home".into()));
    }

    #[test]
    fn fault_e20_no_reserved_name_is_printed() {
        let mut status = sample();
        status.peers[0].name = String::from("localhost");
        status.network = Some(String::from("com"));
        for short in [false, true] {
            let text = render(&status, short);
            assert!(text.contains(&format!("node-{}", status.peers[0].id)), "{text}");
            assert!(!text.contains("localhost") && !text.contains(".com"), "{text}");
        }
    }
}
