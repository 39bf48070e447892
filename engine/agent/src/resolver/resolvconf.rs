//! resolvconf and openresolv: programs that collect the servers of all interfaces and write `/etc/resolv.conf`. They are given the forwarder as the only server.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;

use super::forward::Forwarder;
use super::hook::Hook;
use super::servers::{ADDRESS, PORT, RESOLV_CONF, is_forwarder_named, servers};
use super::{Wanted, care, command};
use crate::api::{Failure, ResolverBackEnd};

/// The name of our record. Both programs place records of the loopback interface first.
const RECORD: &str = "lo.taut";
/// Directories with the records of all interfaces: Debian's resolvconf, and openresolv.
const RECORDS: [&str; 2] = ["/run/resolvconf/interface", "/run/resolvconf/interfaces"];
/// Servers that an administrator adds to those of the interfaces, with Debian's resolvconf.
const ADDED: [&str; 2] = ["/etc/resolvconf/resolv.conf.d/head", "/etc/resolvconf/resolv.conf.d/base"];

/// Our record.
pub(super) struct Resolvconf {
    forwarder: Forwarder,
    /// The servers of the other records.
    others: Vec<SocketAddr>,
    /// Whether the record is ours, and not that of another daemon of this host.
    holds: bool,
}

impl Resolvconf {
    pub(super) fn new(forwarder: Forwarder) -> Self {
        Self { forwarder, others: Vec::new(), holds: false }
    }
}

impl Hook for Resolvconf {
    fn back_end(&self) -> ResolverBackEnd {
        ResolverBackEnd::Resolvconf
    }

    fn apply(&mut self, wanted: &Wanted) -> Result<(), Failure> {
        self.others = others();
        self.forwarder.serve(wanted, &self.others)?;
        self.holds = true;
        let mut record = format!("nameserver {ADDRESS}\n");
        if wanted.search {
            record += &format!("search {}\n", wanted.domain());
        }
        let failed = |error: String| {
            Failure::new(
                format!("resolvconf did not take the network's name server: {error}"),
                "taut tries again automatically; `taut hosts` prints lines for /etc/hosts meanwhile",
            )
        };
        // openresolv leaves out other records beside an exclusive one. Debian's resolvconf has no such word, and leaves out servers behind one of the loopback interface.
        let is_openresolv =
            command::run("resolvconf", &["--version"], "").is_ok_and(|text| text.contains("openresolv"));
        let words: &[&str] = if is_openresolv { &["-x", "-a", RECORD] } else { &["-a", RECORD] };
        command::run("resolvconf", words, &record).map_err(failed)?;
        let text = care::read(Path::new(RESOLV_CONF)).unwrap_or_default();
        match servers(&text).first() {
            Some(other) => Err(failed(format!(
                "{RESOLV_CONF} names {} beside it, which would be asked for names of the network, too",
                other.ip()
            ))),
            None => Ok(()),
        }
    }

    fn is_in_place(&mut self, wanted: &Wanted) -> bool {
        let others = others();
        if others != self.others {
            // It listens already, so this cannot fail.
            let _ = self.forwarder.serve(wanted, &others);
            self.others = others;
        }
        let text = care::read(Path::new(RESOLV_CONF)).unwrap_or_default();
        is_forwarder_named(&text) && servers(&text).is_empty()
    }

    fn undo(&mut self) {
        if std::mem::take(&mut self.holds) {
            remove();
        }
    }
}

/// Removes the record that a helper left which does not run any more.
pub(super) fn recover() {
    let is_there = RECORDS.iter().any(|directory| Path::new(directory).join(RECORD).exists());
    // A helper that runs has the forwarder's address.
    if is_there && UdpSocket::bind((ADDRESS, PORT)).is_ok() {
        remove();
    }
}

fn remove() {
    // Nobody is left to tell if this fails.
    let _ = command::run("resolvconf", &["-d", RECORD], "");
}

/// Returns the servers of all other records.
fn others() -> Vec<SocketAddr> {
    let mut paths: Vec<_> = RECORDS
        .iter()
        .filter_map(|directory| fs::read_dir(directory).ok())
        .flatten()
        .flatten()
        .map(|file| file.path())
        .collect();
    paths.sort_unstable();
    paths.extend(ADDED.map(Into::into));
    let mut found = Vec::new();
    for path in paths.iter().filter(|path| path.file_name().is_none_or(|name| name != RECORD)) {
        for server in servers(&care::read_of_root(path).unwrap_or_default()) {
            if !found.contains(&server) {
                found.push(server);
            }
        }
    }
    found
}
