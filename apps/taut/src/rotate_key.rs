//! `taut rotate-key`: replaces this node's WireGuard key, and waits until the network uses the new one.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;
use taut_agent::api::{ApiRequest, SCHEMA, Status};
use taut_base::PublicKey;

use crate::client::Client;
use crate::fault::Fault;
use crate::flags::{Word, Words, default_socket, unexpected};
use crate::output;

pub(crate) const ARGUMENTS: &str = "[--json] [--socket PATH] [--timeout TIME]";

pub(crate) const DETAILS: &str = "Makes another WireGuard key for this node. Connections go on: peers that are online take the new key with the next network map,\n\
     others as soon as they have the map. The former key is revoked. Name and addresses stay. The coordinator allows four rotations\n\
     at once, and then one every six hours.\n\n\
     --json           print the former and the new public key as an object, with a schema version\n\
     --timeout TIME   longest wait for the coordinator (default 30s)";

/// Time between two requests for the daemon's progress.
const POLL: Duration = Duration::from_millis(50);

/// The object that `--json` prints.
#[derive(Serialize)]
struct Rotated {
    schema: u32,
    former: PublicKey,
    node_key: PublicKey,
}

pub(crate) fn run(mut words: Words) -> Result<(), Fault> {
    let (mut socket, mut timeout, mut json) = (default_socket(), Duration::from_secs(30), false);
    while let Some(word) = words.next()? {
        match word {
            Word::Flag(flag) if flag == "--json" => json = true,
            Word::Flag(flag) if flag == "--socket" => socket = PathBuf::from(words.value()?),
            Word::Flag(flag) if flag == "--timeout" => timeout = words.time(&flag)?,
            other => return Err(unexpected(&other)),
        }
    }
    let deadline = Instant::now() + timeout;
    let mut client = Client::open(&socket)?;
    let key = |status: &Status| status.me.as_ref().map(|me| me.node_key);
    let no_member = || Fault::failed("this node is not a member of a network", "`taut up` joins one");
    let former = client.status()?.me.as_ref().map(|me| me.node_key).ok_or_else(no_member)?;
    if !client.change(&ApiRequest::RotateKey)? {
        return Err(Fault::failed("the daemon ended before it answered", "start it with `taut up`, then try again"));
    }
    loop {
        let status = client.status()?;
        if let Some(node_key) = key(&status).filter(|key| *key != former) {
            return match json {
                true => output::print_json(&Rotated { schema: SCHEMA, former, node_key }),
                false => output::print(&format!("the key is now {node_key}")),
            };
        }
        if let Some(problem) = status.problem {
            return Err(problem.into());
        }
        if Instant::now() >= deadline {
            let hint = "the daemon keeps trying; `taut status --json` shows the key in use";
            return Err(Fault::failed("the coordinator has not listed the new key yet", hint));
        }
        std::thread::sleep(POLL);
    }
}
