//! Plain `/etc/resolv.conf`: the file names the forwarder, and the former file is kept beside it until it is put back.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use super::forward::Forwarder;
use super::hook::Hook;
use super::marks::{Writer, mark, owner};
use super::servers::{ADDRESS, KEPT, RESOLV_CONF, servers};
use super::{Wanted, care};
use crate::api::{Failure, ResolverBackEnd};

/// The new file before it is renamed, so that no program reads half of it.
const NEW: &str = "/etc/resolv.conf.taut-new";

/// The file.
pub(super) struct ResolvFile {
    forwarder: Forwarder,
    /// The former file's text; `None` while another program has the file.
    former: Option<String>,
}

impl ResolvFile {
    pub(super) fn new(forwarder: Forwarder) -> Self {
        Self { forwarder, former: None }
    }

    /// Returns the former file's text as it is now; as it was, if the file is gone.
    fn read_kept(&self) -> String {
        care::read(Path::new(KEPT)).unwrap_or_else(|_| self.former.clone().unwrap_or_default())
    }
}

impl Hook for ResolvFile {
    fn back_end(&self) -> ResolverBackEnd {
        ResolverBackEnd::File
    }

    fn apply(&mut self, wanted: &Wanted) -> Result<(), Failure> {
        let current = read();
        let former = match owner(&current) {
            Some(owner) if owner.is_this() => self.read_kept(),
            Some(owner) if owner.is_running() => return Err(taken()),
            _ => {
                recover();
                read()
            }
        };
        self.forwarder.serve(wanted, &servers(&former))?;
        self.former = Some(former.clone());
        write(&text(&former, wanted)).map_err(|error| {
            Failure::new(
                format!("{RESOLV_CONF} cannot be changed: {error}"),
                "under systemd, install dist/systemd/taut-dns.socket and taut-dns@.service; else make /etc writable for taut, or print lines for /etc/hosts with `taut hosts`",
            )
        })
    }

    fn is_in_place(&mut self, _: &Wanted) -> bool {
        // A program that had the former file open may have written the rest of it since.
        owner(&read()).is_some_and(Writer::is_this) && Some(self.read_kept()) == self.former
    }

    fn undo(&mut self) {
        if owner(&read()).is_some_and(Writer::is_this) {
            put_back();
        } else if self.former.take().is_some() {
            recover();
        }
    }
}

/// Puts the file back that a helper left which does not run any more.
pub(super) fn recover() {
    match owner(&read()) {
        Some(owner) if owner.is_running() => {}
        Some(_) => put_back(),
        None if is_kept() && is_lost() => put_back(),
        None if read().trim().is_empty() => {}
        // Another program wrote a newer one, which stays.
        None => drop(fs::remove_file(KEPT)),
    }
}

fn is_kept() -> bool {
    Path::new(KEPT).symlink_metadata().is_ok()
}

/// Returns true if the file is missing or empty, so that the host's servers are in the kept one alone: a helper was killed while it wrote, or the host lost its
/// power. A link whose target is not there yet is another program's.
fn is_lost() -> bool {
    Path::new(RESOLV_CONF).symlink_metadata().map_or_else(
        |error| error.kind() == io::ErrorKind::NotFound,
        |found| found.is_file() && read().trim().is_empty(),
    )
}

fn taken() -> Failure {
    Failure::new(
        format!("another taut daemon answers this host's questions in {RESOLV_CONF}, and the file has room for one"),
        if cfg!(feature = "desktop-dns") {
            "ask at the addresses above, or install a resolver that knows several, such as systemd-resolved or dnsmasq"
        } else {
            "ask at the addresses above, or install a resolver that knows several: dnsmasq"
        },
    )
}

fn read() -> String {
    care::read(Path::new(RESOLV_CONF)).unwrap_or_default()
}

/// Returns the new text: one server, and the options of the former file.
fn text(former: &str, wanted: &Wanted) -> String {
    let of = |line: &&str| line.split_whitespace().next().unwrap_or_default().to_owned();
    let mut lines = vec![
        mark(),
        format!(
            "# It answers names of {} through the overlay, and asks the servers of {KEPT} for all others.",
            wanted.domain()
        ),
        String::from("# `taut down` puts that file back."),
        format!("nameserver {ADDRESS}"),
    ];
    let search = former.lines().rfind(|line| ["search", "domain"].contains(&of(line).as_str()));
    match (search, wanted.search) {
        (Some(line), true) => {
            let domains: Vec<&str> = line.split_whitespace().skip(1).collect();
            lines.push(format!("search {} {}", domains.join(" "), wanted.domain()));
        }
        (None, true) => lines.push(format!("search {}", wanted.domain())),
        (Some(line), false) => lines.push(String::from(line)),
        (None, false) => {}
    }
    lines.extend(former.lines().filter(|line| ["options", "sortlist"].contains(&of(line).as_str())).map(String::from));
    lines.join("\n") + "\n"
}

/// Writes the new file. The former one is kept first, unless it is ours.
fn write(text: &str) -> io::Result<()> {
    if owner(&read()).is_none() {
        keep()?;
    }
    care::create(Path::new(NEW), text.as_bytes())?;
    // Nothing of ours is left where the file cannot be changed, as in a container that mounted it read-only.
    replace(NEW).inspect_err(|_| drop(fs::remove_file(NEW)))
}

/// Keeps the former file, with its owner, times and attributes: the same file under a second name. A symbolic link is kept as such.
fn keep() -> io::Result<()> {
    let _ = fs::remove_file(KEPT);
    match fs::hard_link(RESOLV_CONF, KEPT) {
        // A file that a container mounted has no second name.
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            care::create(Path::new(KEPT), care::read(Path::new(RESOLV_CONF))?.as_bytes())
        }
        // Without a former file nothing is kept, and none is put back.
        _ => Ok(()),
    }
}

/// Has the file be that at `path`. A file that a container mounted cannot be replaced, so its text is.
fn replace(path: &str) -> io::Result<()> {
    match fs::rename(path, RESOLV_CONF) {
        Err(error) if [io::ErrorKind::ResourceBusy, io::ErrorKind::CrossesDevices].contains(&error.kind()) => {
            let text = fs::read(path)?;
            let mut file = File::create(RESOLV_CONF)?;
            file.write_all(&text)?;
            // The other file has the text alone until this one is on the disk.
            file.sync_all()?;
            fs::remove_file(path)
        }
        result => result,
    }
}

fn put_back() {
    // Nobody is left to tell if this fails; the next start tries again.
    let _ = if is_kept() { replace(KEPT) } else { fs::remove_file(RESOLV_CONF) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_file_names_the_forwarder_alone_and_keeps_options() {
        let mut wanted = Wanted::for_zones(&["home.taut.internal"]);
        let former = "nameserver 192.0.2.1\nsearch old\nsearch lan corp.example\noptions edns0 trust-ad\n";
        let lines = |wanted: &Wanted| text(former, wanted).lines().skip(3).map(String::from).collect::<Vec<_>>();
        assert_eq!(lines(&wanted), ["nameserver 127.64.0.53", "search lan corp.example", "options edns0 trust-ad"]);
        wanted.search = true;
        assert_eq!(
            lines(&wanted)[1],
            "search lan corp.example home.taut.internal",
            "the host's own domains come first"
        );
        assert!(owner(&text(former, &wanted)).is_some_and(Writer::is_this));
        assert_eq!(owner(former), None);
    }
}
