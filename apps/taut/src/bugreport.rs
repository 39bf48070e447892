//! `taut bugreport`: everything that helps to find a fault, in one archive.
//!
//! - this file: the command, and the choice of the content;
//! - `host`: facts of the kernel and the daemon's process; `routes`: the kernel's routes;
//! - `tar`: the archive.
//!
//! Guarantee: the archive contains no private key, token, ticket or cookie. It contains only answers of the local API, the event log, the daemon's output without words
//! that could be secrets, and facts of the host. The environment and files with keys are not read.

mod host;
mod routes;
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
Writes one tar archive that only its owner may read: events, status, `taut why` for every peer, netcheck, the daemon's output, facts of the kernel,
addresses, rules of the firewall (nft), versions and limits. It takes some seconds, changes nothing, and works without a daemon.
For root and the daemon's user only.

It contains names and addresses of the network and of this host, and no private keys, tokens or tickets.

--output FILE   file to write (default taut-bugreport-TIME.tar in this directory); an existing file is not replaced
--state DIR     directory of the saved events and of the daemon's output (default /var/lib/taut, or on OpenWrt /etc/taut/state)
--socket PATH   local socket of the daemon (default /run/taut/taut.sock)";

/// Limit on the peers whose paths are explained, 1,000: they take one second of the daemon's processor time.
const MAX_PEERS: usize = 1_000;

/// The files of the archive and their content. `README.txt` lists those that exist.
const FILES: [(&str, &str); 12] = [
    ("status.json", "what `taut status --json` printed"),
    ("why.jsonl", "what `taut why PEER --json` printed, one peer per line"),
    ("events.jsonl", "events that the daemon had in memory (docs/log.md)"),
    ("saved.jsonl", "events on the disk"),
    ("daemon.log", "output of the daemons that `taut up` started, in particular why one did not start"),
    ("metrics.txt", "what `taut metrics` printed"),
    ("netcheck.json", "what `taut netcheck --json` printed"),
    ("host.txt", "kernel, clock, TUN device, settings, interfaces, routes, the daemon's process and options"),
    ("ip.txt", "addresses of the host, and rules that choose a routing table"),
    ("nft.txt", "rules of the firewall"),
    ("versions.txt", "versions of command line and daemon, and the recorded levels of events"),
    ("missing.txt", "files that could not be collected, with the reasons"),
];

/// The end of `README.txt`.
const NAMES_AND_NO_SECRETS: &str = "\nNames and addresses of the network and of the host are in these files. Private keys, tokens and tickets are not.\n";

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
    let (client, events, levels) = ask_log(&socket)?;
    let saved = log::saved(&state);
    if client.is_none() {
        saved.as_ref().map_err(|fault| {
            Fault::failed(fault.message(), "try again as root, or name the right directory with --state")
        })?;
    }
    let file = create(&target)?;
    let mut report = BugReport::default();
    report.collect_events(&events, saved, &state);
    report.collect(client, &levels, &socket, &state);
    report.write(Tar::new(file, name)).map_err(|error| {
        let _ = std::fs::remove_file(&target);
        Fault::failed(format!("{} cannot be written: {error}", target.display()), "choose another place with --output")
    })?;
    let path = std::path::absolute(&target).unwrap_or(target);
    output::complain(
        "It contains names and addresses of the network and of this host, and no private keys, tokens or tickets. Only its owner may read it.",
    );
    output::print(&path.display().to_string())
}

/// Returns a connection to the daemon, its events and the recorded levels; no connection if no daemon runs.
///
/// # Errors
/// If this user may not read the events.
fn ask_log(socket: &Path) -> Result<(Option<Client>, Vec<String>, String), Fault> {
    let mut client = match Client::connect(socket) {
        Ok(client) => client,
        Err(NoDaemon::Absent) => return Ok((None, Vec::new(), String::new())),
        Err(denied) => return Err(denied.explain(socket)),
    };
    let (lines, end) = log::in_memory(&mut client)?;
    Ok((Some(client), lines, end.levels))
}

fn create(path: &Path) -> Result<File, Fault> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|error| {
        let hint = "name another file with --output; an existing file is not replaced";
        Fault::failed(format!("{} cannot be created: {error}", path.display()), hint)
    })
}

/// The content of the archive.
#[derive(Default)]
struct BugReport {
    /// Names and contents of the files.
    files: Vec<(&'static str, String)>,
    /// The missing files, one per line, each with the reason.
    missing: String,
}

impl BugReport {
    fn collect_events(&mut self, events: &[String], saved: Result<Vec<String>, Fault>, state: &Path) {
        match events {
            [] => self.missing("events.jsonl", "no daemon answers"),
            _ => self.add("events.jsonl", lines(events)),
        }
        match saved {
            Ok(saved) if saved.is_empty() => {
                self.missing("saved.jsonl", &format!("there are no events in {}", state.display()));
            }
            Ok(saved) => self.add("saved.jsonl", lines(&saved)),
            Err(fault) => self.missing("saved.jsonl", &fault.message()),
        }
        self.add_or_miss("daemon.log", host::daemon_log(state));
    }

    fn collect(&mut self, client: Option<Client>, levels: &str, socket: &Path, state: &Path) {
        let mut status = None;
        match client {
            Some(mut client) => status = self.ask(&mut client),
            None => self.missing("status.json, why.jsonl, metrics.txt", "no daemon answers"),
        }
        progress("netcheck (three seconds)");
        self.add_or_miss(
            "netcheck.json",
            netcheck::report(socket, state).map(|report| json(&report)).map_err(|fault| fault.message()),
        );
        progress("this host");
        let (tun, pid) = status.as_ref().map_or((None, None), |status| {
            (status.me.as_ref().and_then(|me| me.tun.as_ref()).map(|tun| tun.name.clone()), Some(status.pid))
        });
        self.add("host.txt", host::facts(tun.as_deref(), pid));
        self.add_or_miss("ip.txt", host::output("ip", &[&["address"], &["rule"], &["-6", "rule"]]));
        self.add_or_miss("nft.txt", host::output("nft", &[&["list", "ruleset"]]));
        let daemon = status.map_or_else(
            || String::from("not running"),
            |status| format!("{}, records the levels {levels}", status.version),
        );
        self.add("versions.txt", format!("taut {VERSION}\ndaemon {daemon}\n"));
    }

    /// Adds the daemon's status, explanations and metrics.
    fn ask(&mut self, client: &mut Client) -> Option<Box<Status>> {
        progress("status");
        let status = match client.status() {
            Ok(status) => status,
            Err(fault) => {
                self.missing("status.json, why.jsonl, metrics.txt", &fault.message());
                return None;
            }
        };
        self.add("status.json", json(&status));
        self.add_or_miss("metrics.txt", client.metrics().map_err(|fault| fault.message()));
        progress(&format!("the paths to {} peers", status.peers.len()));
        let mut all = String::new();
        for peer in status.peers.iter().take(MAX_PEERS) {
            match client.why(&peer.name) {
                Ok(why) => all.push_str(&(taut_json::to_string(&why).unwrap_or_default() + "\n")),
                Err(fault) => self.missing(&format!("why.jsonl, {}", peer.name), &fault.message()),
            }
        }
        match all.is_empty() {
            true => self.missing("why.jsonl", "there is no peer"),
            false => self.add("why.jsonl", all),
        }
        Some(status)
    }

    fn add(&mut self, name: &'static str, text: String) {
        self.files.push((name, text));
    }

    fn add_or_miss(&mut self, name: &'static str, text: Result<String, String>) {
        match text {
            Ok(text) => self.add(name, text),
            Err(why) => self.missing(name, &why),
        }
    }

    fn missing(&mut self, what: &str, why: &str) {
        self.missing.push_str(&format!("{what}: {why}\n"));
    }

    /// Writes the archive. The first file lists the others.
    fn write(mut self, mut archive: Tar<File>) -> io::Result<()> {
        if !self.missing.is_empty() {
            let missing = std::mem::take(&mut self.missing);
            self.add("missing.txt", missing);
        }
        let has = |name: &str| self.files.iter().any(|(known, _)| *known == name);
        let list = FILES.iter().filter(|(name, _)| has(name)).map(|(name, content)| format!("{name:<14} {content}\n"));
        let readme = list.collect::<String>() + NAMES_AND_NO_SECRETS;
        let now = taut_event::wall_clock().as_secs();
        archive.add("README.txt", readme.as_bytes(), now)?;
        for (name, text) in &self.files {
            archive.add(name, text.as_bytes(), now)?;
        }
        archive.finish()
    }
}

fn progress(what: &str) {
    output::complain(&format!("collecting: {what}"));
}

fn json(value: &impl serde::Serialize) -> String {
    taut_json::to_string(value).map(|json| taut_json::pretty(&json)).unwrap_or_default() + "\n"
}

fn lines(lines: &[String]) -> String {
    lines.iter().map(|line| line.clone() + "\n").collect()
}
