//! `taut leave`: ends the membership, deletes the keys, and waits until both are done.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use taut_agent::api::{ApiRequest, LeaveState, LeaveStatus, NodeState, SCHEMA};

use crate::client::{Client, NoDaemon};
use crate::fault::Fault;
use crate::flags::{DaemonFlags, Word, Words, unexpected};
use crate::{launch, output};

pub(crate) const ARGUMENTS: &str = "[--json] [--state DIR] [--socket PATH] [--timeout TIME]";

pub(crate) const DETAILS: &str = "\
Ends this node's membership for good: the coordinator removes the node, the TUN device is removed, and the keys, the last map and the relay ticket are
deleted from the disk. `taut down` keeps all of them. Joining again needs a join token and makes a new node with new addresses. If the coordinator does
not answer within ten seconds, the node leaves anyway, and the output has the command with which the operator removes the node.

--json           print the result as an object, with a schema version
--state DIR      directory of the keys, if no daemon runs (default /var/lib/taut, or on OpenWrt /etc/taut/state)
--timeout TIME   longest wait for the result (default 30s)

Exit status: 0 if the keys are deleted, 1 otherwise.";

/// Time between two requests for the daemon's progress.
const POLL: Duration = Duration::from_millis(50);

/// The object that `--json` prints.
#[derive(Serialize)]
struct Left<'a> {
    schema: u32,
    state: NodeState,
    left: &'a LeaveStatus,
}

pub(crate) fn run(mut words: Words) -> Result<(), Fault> {
    let (mut flags, mut timeout, mut json) = (DaemonFlags::from_environment(), Duration::from_secs(30), false);
    while let Some(word) = words.next()? {
        match &word {
            Word::Flag(flag) if flag == "--json" => json = true,
            Word::Flag(flag) if flag == "--state" => flags.state = PathBuf::from(words.value()?),
            Word::Flag(flag) if flag == "--socket" => flags.socket = PathBuf::from(words.value()?),
            Word::Flag(flag) if flag == "--timeout" => timeout = words.time(flag)?,
            other => return Err(unexpected(other)),
        }
    }
    let deadline = Instant::now() + timeout;
    let (mut client, started) = match Client::connect(&flags.socket) {
        Ok(client) => (client, false),
        Err(NoDaemon::Absent) => {
            must_be_member(&flags.state)?;
            launch::do_without_device(&mut flags)?;
            (launch::start(&flags, deadline)?, true)
        }
        Err(denied) => return Err(denied.explain(&flags.socket)),
    };
    let result = leave(&mut client, deadline);
    if started || result.is_ok() {
        // A daemon that `taut up` or this verb started ends, because it has no more work. Any other daemon keeps running.
        client.end();
    }
    let left = result?;
    launch::forget(&flags.state);
    match json {
        true => output::print_json(&Left { schema: SCHEMA, state: NodeState::NeedsJoin, left: &left }),
        false => output::print(&describe(&left)),
    }
}

/// Fails if the state directory holds no identity. If it cannot be searched, the daemon reports why.
fn must_be_member(state: &Path) -> Result<(), Fault> {
    let is_missing = |name| matches!(state.join(name).try_exists(), Ok(false));
    if ["identity.json", "identity.json.prev", "leaving"].into_iter().all(is_missing) {
        let message = format!("this node is not a member of any network: {} holds no identity", state.display());
        return Err(Fault::failed(message, "there is nothing to leave"));
    }
    Ok(())
}

/// Asks the daemon to leave, and waits until the keys are deleted.
fn leave(client: &mut Client, deadline: Instant) -> Result<LeaveStatus, Fault> {
    client.change(&ApiRequest::Leave)?;
    loop {
        let Some(leave) = client.status()?.leave else {
            return Err(Fault::failed("the node has joined a network again", "`taut status` shows which"));
        };
        match (leave.state, &leave.listed, &leave.problem) {
            (LeaveState::Leaving, ..) => {}
            (LeaveState::Left, Some(true), _) | (LeaveState::Left, _, None) => return Ok(leave),
            (LeaveState::Left | LeaveState::Failed, _, problem) => {
                return Err(problem.clone().map_or(Fault::Reported, Fault::from));
            }
        }
        if Instant::now() >= deadline {
            let hint = "the daemon keeps trying; `taut status` shows its progress";
            return Err(Fault::failed("the coordinator has not answered yet", hint));
        }
        std::thread::sleep(POLL);
    }
}

fn describe(left: &LeaveStatus) -> String {
    let name = left.name.as_deref().unwrap_or("this node");
    let network = left.network.as_deref().map_or_else(|| String::from("its network"), |name| format!("network {name}"));
    let line = format!("{name} left {network}; its keys are removed from this host");
    match &left.problem {
        Some(problem) => format!("{line}\n{problem}"),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use taut_agent::api::Failure;

    use super::*;

    #[test]
    fn remaining_steps_are_named() {
        let left = LeaveStatus {
            state: LeaveState::Left,
            network: Some(String::from("home")),
            name: Some(String::from("web")),
            listed: Some(false),
            problem: None,
        };
        assert_eq!(describe(&left), "web left network home; its keys are removed from this host");
        let problem = Failure { message: String::from("still listed"), hint: String::from("remove it") };
        let listed = LeaveStatus { listed: Some(true), problem: Some(problem), name: None, network: None, ..left };
        assert_eq!(
            describe(&listed),
            "this node left its network; its keys are removed from this host\nstill listed\n  remove it"
        );
    }

    #[test]
    fn a_host_without_an_identity_has_nothing_to_leave() {
        assert!(must_be_member(Path::new("/nonexistent/taut")).is_err());
    }
}
