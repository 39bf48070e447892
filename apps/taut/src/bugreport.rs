//! `taut bugreport`: everything that helps to find a fault, in one archive.
//!
//! - this file: the command, and the choice of the content;
//! - `host`: facts of the kernel and the daemon's process;
//! - `tar`: the archive.
//!
//! Guarantee: the archive contains no key, token, ticket or cookie. It contains only answers of the local API, the event log and facts of the host. The environment
//! and files with keys are not read.

mod host;
mod tar;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use taut_agent::api::Status;
use taut_base::format_time;

use crate::client::{Client, NoDaemon};
use crate::fault::Fault;
use crate::flags::{Word, Words, default_socket, default_state, unexpected};
use crate::version::VERSION;
use crate::{log, netcheck, output};
use tar::Tar;

pub(crate) const ARGUMENTS: &str = "[--output FILE] [--state DIR] [--socket PATH]";

pub(crate) const DETAILS: &str = "\
Writes one tar archive that only its owner may read: events, status, `taut why` for every peer, netcheck, facts of the kernel, versions and limits.
It takes some seconds, changes nothing, and works without a daemon. For root and the daemon's user only.

It contains names and addresses of the network and of this host, and no keys, tokens or tickets.

--output FILE   file to write (default taut-bugreport-TIME.tar in this directory); an existing file is not replaced
--state DIR     directory of the saved events (default /var/lib/taut)";

/// Limit on the peers whose paths are explained, 1,000: they take one second of the daemon's processor time.
const MAX_PEERS: usize = 1_000;

const README: &str = "\
status.json    what `taut status --json` printed
why.jsonl      what `taut why PEER --json` printed, one peer per line
events.jsonl   events that the daemon had in memory (docs/log.md)
saved.jsonl    events on the disk
metrics.txt    what `taut metrics` printed
netcheck.json  what `taut netcheck --json` printed
host.txt       kernel, TUN device, nftables, settings, interfaces, routes of the overlay, the daemon's process
versions.txt   versions of command line and daemon

Names and addresses of the network and of the host are in these files. Keys, tokens and tickets are not.
";

pub(crate) fn run(mut words: Words) -> Result<(), Fault> {
    let (mut target, mut state, mut socket) = (None, default_state(), default_socket());
    while let Some(word) = words.next()? {
        match &word {
            Word::Flag(flag) if flag == "--output" => target = Some(PathBuf::from(words.value()?)),
            Word::Flag(flag) if flag == "--state" => state = PathBuf::from(words.value()?),
            Word::Flag(flag) if flag == "--socket" => socket = PathBuf::from(words.value()?),
            other => return Err(unexpected(other)),
        }
    }
    let time: String =
        format_time(taut_event::wall_clock()).chars().take(19).filter(|letter| !"-:".contains(*letter)).collect();
    let name = format!("taut-bugreport-{time}");
    let target = target.unwrap_or_else(|| PathBuf::from(format!("{name}.tar")));
    // A user who may not read the log is refused before a file is created.
    let (client, events) = ask_log(&socket)?;
    let saved = log::saved(&state).or_else(|fault| if client.is_some() { Ok(Vec::new()) } else { Err(fault) })?;
    let file = create(&target)?;
    let written =
        BugReport { archive: Tar::new(file, name), failed: None }.fill(client, &events, &saved, &socket, &state);
    written.map_err(|error| {
        let _ = std::fs::remove_file(&target);
        Fault::failed(format!("{} cannot be written: {error}", target.display()), "choose another place with --output")
    })?;
    let path = std::path::absolute(&target).unwrap_or(target);
    output::complain(
        "It contains names and addresses of the network and of this host, and no keys, tokens or tickets. Only its owner may read it.",
    );
    output::print(&path.display().to_string())
}

/// Returns a connection to the daemon and its events; no connection if no daemon runs.
///
/// # Errors
/// If this user may not read the events.
fn ask_log(socket: &Path) -> Result<(Option<Client>, Vec<String>), Fault> {
    let mut client = match Client::connect(socket) {
        Ok(client) => client,
        Err(NoDaemon::Absent) => return Ok((None, Vec::new())),
        Err(denied) => return Err(denied.explain(socket)),
    };
    let (lines, _) = log::in_memory(&mut client)?;
    Ok((Some(client), lines))
}

fn create(path: &Path) -> Result<File, Fault> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|error| {
        let hint = "name another file with --output; an existing file is not replaced";
        Fault::failed(format!("{} cannot be created: {error}", path.display()), hint)
    })
}

struct BugReport {
    archive: Tar<File>,
    /// The missing parts, one per line, each with the reason.
    failed: Option<String>,
}

impl BugReport {
    fn fill(
        mut self,
        client: Option<Client>,
        events: &[String],
        saved: &[String],
        socket: &Path,
        state: &Path,
    ) -> io::Result<()> {
        self.add("README.txt", README)?;
        self.add("events.jsonl", &lines(events))?;
        self.add("saved.jsonl", &lines(saved))?;
        let mut status = None;
        match client {
            Some(mut client) => status = self.ask(&mut client)?,
            None => self.missing("status", "no daemon answers"),
        }
        progress("netcheck (three seconds)");
        match netcheck::report(socket, state) {
            Ok(report) => self.add("netcheck.json", &json(&report))?,
            Err(fault) => self.missing("netcheck", &fault.message()),
        }
        progress("this host");
        let (tun, pid) = status.as_ref().map_or((None, None), |status| {
            (status.me.as_ref().and_then(|me| me.tun.as_ref()).map(|tun| tun.name.clone()), Some(status.pid))
        });
        self.add("host.txt", &host::facts(tun.as_deref(), pid))?;
        let daemon = status.map_or_else(|| String::from("not running"), |status| status.version);
        self.add("versions.txt", &format!("taut {VERSION}\ndaemon {daemon}\n"))?;
        if let Some(failed) = self.failed.take() {
            self.add("missing.txt", &failed)?;
        }
        self.archive.finish()
    }

    /// Adds the daemon's status, explanations and metrics.
    fn ask(&mut self, client: &mut Client) -> io::Result<Option<Box<Status>>> {
        progress("status");
        let status = match client.status() {
            Ok(status) => status,
            Err(fault) => {
                self.missing("status", &fault.message());
                return Ok(None);
            }
        };
        self.add("status.json", &json(&status))?;
        match client.metrics() {
            Ok(metrics) => self.add("metrics.txt", &metrics)?,
            Err(fault) => self.missing("metrics", &fault.message()),
        }
        progress(&format!("the paths to {} peers", status.peers.len()));
        let mut all = String::new();
        for peer in status.peers.iter().take(MAX_PEERS) {
            match client.why(&peer.name) {
                Ok(why) => all.push_str(&(serde_json::to_string(&why).unwrap_or_default() + "\n")),
                Err(fault) => self.missing(&format!("why {}", peer.name), &fault.message()),
            }
        }
        self.add("why.jsonl", &all)?;
        Ok(Some(status))
    }

    fn add(&mut self, name: &str, text: &str) -> io::Result<()> {
        self.archive.add(name, text.as_bytes(), taut_event::wall_clock().as_secs())
    }

    fn missing(&mut self, what: &str, why: &str) {
        self.failed.get_or_insert_default().push_str(&format!("{what}: {why}\n"));
    }
}

fn progress(what: &str) {
    output::complain(&format!("collecting: {what}"));
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

fn lines(lines: &[String]) -> String {
    lines.iter().map(|line| line.clone() + "\n").collect()
}
