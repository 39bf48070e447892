//! `taut hosts`: names and addresses as `/etc/hosts` writes them.

use taut_keeper::api::Status;

use crate::fault::Fault;
use crate::flags::{Word, Words, default_socket, unexpected};
use crate::{client, output};

pub(crate) fn run(mut words: Words) -> Result<(), Fault> {
    let mut socket = default_socket();
    while let Some(word) = words.next()? {
        match word {
            Word::Flag(flag) if flag == "--socket" => socket = words.value()?.into(),
            other => return Err(unexpected(&other)),
        }
    }
    let status = client::status(&socket)?;
    if status.me.is_none() {
        return Err(Fault::Failed(String::from(
            "no network map is known yet; join a network with `taut up --join TOKEN`",
        )));
    }
    output::print(&render(&status));
    Ok(())
}

fn render(status: &Status) -> String {
    let me = status.me.iter().map(|me| (&me.addresses, &me.name));
    let peers = status.peers.iter().map(|peer| (&peer.addresses, &peer.name));
    me.chain(peers)
        .flat_map(|(addresses, name)| addresses.iter().map(move |address| format!("{address} {name}\n")))
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
