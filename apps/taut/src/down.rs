//! `taut down`: disconnects, and waits until the TUN device is removed.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;
use taut_agent::api::{ApiRequest, NodeState, SCHEMA};

use crate::client::Client;
use crate::fault::Fault;
use crate::flags::{Word, Words, default_socket, unexpected};
use crate::output;

/// Time between two requests for the daemon's progress.
const POLL: Duration = Duration::from_millis(20);

pub(crate) fn run(mut words: Words) -> Result<(), Fault> {
    let (mut socket, mut timeout, mut json) = (default_socket(), Duration::from_secs(10), false);
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
    let daemon = client.status()?.pid;
    client.change(&ApiRequest::Down)?;
    // A daemon that ends closes the connection last.
    while let Ok(status) = client.status() {
        if status.state == NodeState::NeedsJoin || (status.state == NodeState::Stopped && is_down(&status)) {
            break;
        }
        if Instant::now() >= deadline {
            return Err(Fault::failed(format!("the daemon (process {daemon}) is still not down"), "see its log"));
        }
        std::thread::sleep(POLL);
    }
    if json {
        output::print_json(&Down { schema: SCHEMA, state: NodeState::Stopped })
    } else {
        output::print("taut is down")
    }
}

#[derive(Serialize)]
struct Down {
    schema: u32,
    state: NodeState,
}

fn is_down(status: &taut_agent::api::Status) -> bool {
    status.me.as_ref().is_none_or(|me| me.tun.is_none())
}
