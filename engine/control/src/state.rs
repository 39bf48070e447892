//! The state directory: its permissions, its lock, and the files in it.
//!
//! `identity.json` is required: a member does not start without a whole copy of it. The other files can be lost. Without `map.json` the node waits for the
//! coordinator. Without `stamps.json` peers ignore a node whose clock went back, for a while. Without `ticket.json` relays cannot be used until the
//! coordinator sends a new ticket. `settings` is about the host, not the membership. `leaving` exists while the node gives up its membership: once it is there, all files of the membership are removed, by the next start
//! if necessary. The files may hold secrets or host names, so the directory has mode 0700 and the files 0600.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use taut_base::{PublicKey, SortedMap, decode_base64url};
use taut_netmap::{MAX_TICKET, NetworkMap, Prefixes, Relay};
use taut_noise::public_key;
use zeroize::Zeroizing;

use crate::disk::{Disk, StateFile, System, beside};
use crate::error::StartError;
use crate::event_log::EVENTS;
use crate::identity::{Membership, network_id};

const IDENTITY: &str = "identity.json";
const MAP: &str = "map.json";
const STAMPS: &str = "stamps.json";
const TICKET: &str = "ticket.json";
const SETTINGS: &str = "settings";
const KILL_SWITCH: &str = "kill-switch";
const ADDRESSES: &str = "addresses";
const LEAVING: &str = "leaving";
const LOCK: &str = "lock";

/// An open, locked state directory.
pub(crate) struct StateDir {
    path: PathBuf,
    identity: StateFile,
    map: StateFile,
    stamps: StateFile,
    ticket: StateFile,
    settings: StateFile,
    kill_switch: StateFile,
    addresses: StateFile,
    /// The marker file of a membership that is being given up. While it exists, all other files of the membership must be removed.
    leaving: StateFile,
    is_leaving: bool,
    /// The lock file, which stays locked while it is open.
    _lock: File,
}

/// The content of a state directory.
#[derive(Default)]
pub(crate) struct LoadedState {
    pub(crate) membership: Option<Membership>,
    pub(crate) map: Option<NetworkMap>,
    /// The peers that had a session when the map was saved.
    pub(crate) recent: Vec<PublicKey>,
    /// The map's relays as the coordinator named them.
    pub(crate) named: Vec<Relay>,
    /// The ticket for the relays.
    pub(crate) ticket: Option<Ticket>,
    /// The first stamp of this run's initiations.
    pub(crate) ceiling: Option<Duration>,
    /// The addresses of coordinators, by URL, at the last connections.
    pub(crate) known: SortedMap<String, Vec<IpAddr>>,
    /// Notes for the user, such as damaged copies.
    pub(crate) notes: Vec<String>,
}

#[derive(Serialize)]
struct MapToSave<'a> {
    #[serde(with = "network_id")]
    network: [u8; 16],
    recent: &'a [PublicKey],
    named: &'a [Relay],
    map: &'a NetworkMap,
}

#[derive(taut_json::Deserialize)]
pub(crate) struct SavedMap {
    #[serde(with = "network_id")]
    network: [u8; 16],
    #[serde(default)]
    recent: Vec<PublicKey>,
    #[serde(default)]
    named: Vec<Relay>,
    pub(crate) map: NetworkMap,
}

/// A ticket for the relays of a network, for one bind key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub(crate) struct Ticket {
    #[serde(with = "network_id")]
    pub(crate) network: [u8; 16],
    /// The key that binds with this ticket.
    pub(crate) bind_key: PublicKey,
    /// The ticket in version 1, base64url as the coordinator sent it.
    pub(crate) ticket: String,
    /// The ticket in version 2, if the coordinator sent it. Release 0.1.0 ignores this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) numbered: Option<String>,
    /// Expiry in seconds since 1970.
    pub(crate) expires: u64,
}

impl Ticket {
    /// Returns the ticket in version 1 as it is sent to relays, or `None` if its text is not valid.
    pub(crate) fn bytes(&self) -> Option<Vec<u8>> {
        read_ticket(&self.ticket)
    }

    /// Returns the ticket in version 2, or `None` if the coordinator sent none or its text is not valid.
    pub(crate) fn numbered_bytes(&self) -> Option<Vec<u8>> {
        read_ticket(self.numbered.as_deref()?)
    }
}

fn read_ticket(text: &str) -> Option<Vec<u8>> {
    if text.len() > MAX_TICKET {
        return None;
    }
    decode_base64url(text).ok()
}

#[derive(Serialize, taut_json::Deserialize)]
struct SavedStamps {
    /// The first stamp of the next run, in seconds since the Unix epoch.
    ceiling: u64,
}

/// Returns the relays of the last map in the directory `path`, even while a daemon has the directory open. Returns an empty list if the map does not exist, is
/// damaged, or this user may not read it.
///
/// Commands that examine the network without a daemon use this. Nothing is locked or written.
pub fn saved_relays(path: &Path) -> Vec<Relay> {
    let loaded = StateFile::new(path.join(MAP)).load().ok().flatten();
    let saved: Option<SavedMap> = loaded.and_then(|loaded| taut_json::from_slice(&loaded.body).ok());
    saved.map(|saved| saved.map).filter(|map| map.check().is_ok()).map_or_else(Vec::new, |map| map.relays)
}

/// Returns what `taut set` has kept in the directory `path` ([`crate::Command::RememberSettings`]), even while a daemon has the directory open, and notes for the user, as that an older copy was
/// read. The text is empty if nothing is kept, or what is kept is damaged.
pub fn saved_settings(path: &Path) -> (String, Vec<String>) {
    match StateFile::new(path.join(SETTINGS)).load() {
        Ok(loaded) => loaded.map_or_else(Default::default, |loaded| {
            let text = std::str::from_utf8(&loaded.body).map(String::from).unwrap_or_default();
            (text, loaded.notes)
        }),
        Err(unusable) => (String::new(), vec![format!("{unusable}; what `taut set` kept is not in force")]),
    }
}

/// A small file that can be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SmallFile {
    /// The device whose kill switch is loaded at the next boot; empty for none.
    KillSwitch,
    /// The addresses of coordinators ([`write_addresses`]).
    Addresses,
}

/// Returns the addresses of coordinators as text: a line for each URL, with its addresses behind it.
pub(crate) fn write_addresses(known: &SortedMap<String, Vec<IpAddr>>) -> String {
    let line = |(url, addresses): (&String, &Vec<IpAddr>)| {
        let addresses: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
        format!("{url} {}\n", addresses.join(" "))
    };
    known.iter().map(line).collect()
}

/// Reads what [`write_addresses`] wrote; what is no address is left out.
fn read_addresses(text: &str) -> SortedMap<String, Vec<IpAddr>> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let url = words.next()?;
        Some((String::from(url), words.filter_map(|word| word.parse().ok()).collect()))
    };
    text.lines().filter_map(line).collect()
}

/// Returns the device whose kill switch the daemon of the directory `path` had in force last ([`crate::Command::RememberKillSwitch`]); `None` if none was in force, or this user may not read it.
pub fn saved_kill_switch(path: &Path) -> Option<String> {
    let body = StateFile::new(path.join(KILL_SWITCH)).load().ok().flatten()?.body;
    std::str::from_utf8(&body).ok().filter(|device| !device.is_empty()).map(String::from)
}

/// Forgets the kill switch of the directory `path`, for a host whose daemon does not run.
///
/// # Errors
/// If the file cannot be written.
pub fn forget_kill_switch(path: &Path) -> io::Result<()> {
    match saved_kill_switch(path) {
        Some(_) => StateFile::new(path.join(KILL_SWITCH)).save(b""),
        None => Ok(()),
    }
}

impl StateDir {
    /// Creates or opens the directory at `path`, locks it, and reads its files.
    pub(crate) fn open(path: &Path) -> Result<(Self, LoadedState), StartError> {
        let unusable = |error: io::Error| StartError::Directory { state_dir: path.to_path_buf(), error };
        make_directory(path).map_err(unusable)?;
        close_to_others(path).map_err(unusable)?;
        let lock = lock(path)?;
        let mut state = Self {
            path: path.to_path_buf(),
            identity: StateFile::new(path.join(IDENTITY)),
            map: StateFile::new(path.join(MAP)),
            stamps: StateFile::new(path.join(STAMPS)),
            ticket: StateFile::new(path.join(TICKET)),
            settings: StateFile::new(path.join(SETTINGS)),
            kill_switch: StateFile::new(path.join(KILL_SWITCH)),
            addresses: StateFile::new(path.join(ADDRESSES)),
            leaving: StateFile::new(path.join(LEAVING)),
            is_leaving: false,
            _lock: lock,
        };
        // A damaged `leaving` file is ignored: only a whole `leaving` file makes this program remove keys.
        state.is_leaving = matches!(state.leaving.load(), Ok(Some(_)));
        state.finish_leave().map_err(unusable)?;
        let found = state.load()?;
        Ok((state, found))
    }

    fn load(&mut self) -> Result<LoadedState, StartError> {
        let damaged = |what: String| StartError::Damaged { state_dir: self.path.clone(), what };
        let mut notes = Vec::new();
        let loaded = self.identity.load().map_err(|unusable| match unusable.is_later_format() {
            true => StartError::Later { what: unusable.to_string() },
            false => damaged(unusable.to_string()),
        })?;
        let Some(loaded) = loaded else {
            // Only members save these files. If one of them exists and the identity does not, the identity was lost (fault K2).
            if let Some(trace) = [MAP, STAMPS, TICKET].into_iter().find(|name| self.has(name)) {
                return Err(damaged(format!("{trace} is there, but {IDENTITY} is not")));
            }
            return Ok(LoadedState { notes, ..LoadedState::default() });
        };
        notes.extend(loaded.notes);
        let membership: Membership = taut_json::from_slice(&loaded.body)
            .map_err(|error| damaged(format!("{IDENTITY} does not hold an identity ({error})")))?;
        let mut found = LoadedState::default();
        if let Some(saved) = self.load_map(&membership, &mut notes) {
            (found.map, found.recent, found.named) = (Some(saved.map), saved.recent, saved.named);
        }
        found.ceiling = self.load_ceiling(&mut notes);
        let known = self.addresses.load().ok().flatten();
        found.known =
            known.and_then(|known| std::str::from_utf8(&known.body).map(read_addresses).ok()).unwrap_or_default();
        found.ticket = self.load_ticket(&membership, &mut notes);
        Ok(LoadedState { membership: Some(membership), notes, ..found })
    }

    fn has(&self, name: &str) -> bool {
        let path = self.path.join(name);
        path.exists() || beside(&path, "prev").exists()
    }

    /// Returns the last good map if it is whole, belongs to this network, has the pinned prefixes, and passes the checks of this version (fault K7).
    fn load_map(&mut self, membership: &Membership, notes: &mut Vec<String>) -> Option<SavedMap> {
        let loaded = match self.map.load() {
            Ok(loaded) => loaded?,
            Err(unusable) => {
                notes.push(format!("{unusable}; the coordinator is asked for the whole map"));
                return None;
            }
        };
        notes.extend(loaded.notes);
        let mut saved: SavedMap = match taut_json::from_slice(&loaded.body) {
            Ok(saved) => saved,
            Err(error) => {
                notes.push(format!("{MAP} does not hold a map ({error}); the coordinator is asked for the whole map"));
                return None;
            }
        };
        if saved.network != membership.network {
            return None;
        }
        let prefixes = Prefixes::from(&saved.map.network);
        if membership.pinned.is_some_and(|pinned| pinned != prefixes) {
            notes.push(format!(
                "{MAP} has other prefixes than {IDENTITY} pins; the coordinator is asked for the whole map"
            ));
            return None;
        }
        match saved.map.check() {
            Ok(()) => {
                // Release 0.1.0 saved reserved names.
                saved.map.replace_reserved_names();
                Some(saved)
            }
            Err(refusal) => {
                notes.push(format!("{MAP}: {refusal}"));
                None
            }
        }
    }

    fn load_ceiling(&mut self, notes: &mut Vec<String>) -> Option<Duration> {
        let begin = "initiations are stamped by the clock alone";
        match self.stamps.load() {
            Ok(loaded) => {
                let loaded = loaded?;
                notes.extend(loaded.notes);
                match taut_json::from_slice::<SavedStamps>(&loaded.body) {
                    Ok(saved) => return Some(Duration::from_secs(saved.ceiling)),
                    Err(error) => notes.push(format!("{STAMPS} does not hold a time ({error}); {begin}")),
                }
            }
            Err(unusable) => notes.push(format!("{unusable}; {begin}")),
        }
        None
    }

    /// Returns the last ticket if it is whole and belongs to this membership.
    fn load_ticket(&mut self, membership: &Membership, notes: &mut Vec<String>) -> Option<Ticket> {
        let ask = "relays are used once the coordinator has given a new one";
        let loaded = match self.ticket.load() {
            Ok(loaded) => loaded?,
            Err(unusable) => {
                notes.push(format!("{unusable}; {ask}"));
                return None;
            }
        };
        notes.extend(loaded.notes);
        let saved: Ticket = match taut_json::from_slice(&loaded.body) {
            Ok(saved) => saved,
            Err(error) => {
                notes.push(format!("{TICKET} does not hold a ticket ({error}); {ask}"));
                return None;
            }
        };
        let is_ours = saved.network == membership.network && saved.bind_key == public_key(&membership.bind_key());
        (is_ours && saved.bytes().is_some()).then_some(saved)
    }

    /// Saves the ticket.
    pub(crate) fn save_ticket(&mut self, ticket: &Ticket) -> io::Result<()> {
        self.ticket.save(&json(ticket)?)
    }

    /// Saves what `taut set` keeps. It is about this host, and stays there when the membership ends.
    pub(crate) fn save_settings(&mut self, settings: &str) -> io::Result<()> {
        self.settings.save(settings.as_bytes())
    }

    /// Saves a small file. A host that never had a kill switch gets no file for it.
    pub(crate) fn save_small(&mut self, file: SmallFile, text: &str) -> io::Result<()> {
        match file {
            SmallFile::KillSwitch if text.is_empty() && saved_kill_switch(&self.path).is_none() => Ok(()),
            SmallFile::KillSwitch => self.kill_switch.save(text.as_bytes()),
            SmallFile::Addresses => self.addresses.save(text.as_bytes()),
        }
    }

    /// Saves the first stamp of the next run, rounded up to a second.
    pub(crate) fn save_ceiling(&mut self, ceiling: Duration) -> io::Result<()> {
        let saved = SavedStamps { ceiling: ceiling.as_secs().saturating_add(1) };
        self.stamps.save(&json(&saved)?)
    }

    /// Saves the membership with its keys.
    pub(crate) fn save_membership(&mut self, membership: &Membership) -> io::Result<()> {
        // Leaving is completed first: otherwise the next start would remove the new identity.
        self.finish_leave()?;
        let body = Zeroizing::new(json(membership)?);
        self.identity.save(&body)
    }

    /// Saves the decision to give up the membership. Once the decision is on the disk, no later start finds a membership here.
    ///
    /// # Errors
    /// If the disk refuses. The membership is then unchanged.
    pub(crate) fn begin_leave(&mut self) -> io::Result<()> {
        self.begin_leave_on(&mut System)
    }

    /// [`Self::begin_leave`], on any disk.
    pub(crate) fn begin_leave_on(&mut self, disk: &mut impl Disk) -> io::Result<()> {
        self.leaving.save_on(disk, b"{}")?;
        self.is_leaving = true;
        Ok(())
    }

    /// Overwrites and removes keys, map, stamps and ticket, if the membership is being given up.
    ///
    /// # Errors
    /// If the disk refuses. Another call, or the next start, continues where this one stopped.
    pub(crate) fn finish_leave(&mut self) -> io::Result<()> {
        self.finish_leave_on(&mut System)
    }

    /// [`Self::finish_leave`], on any disk.
    pub(crate) fn finish_leave_on(&mut self, disk: &mut impl Disk) -> io::Result<()> {
        if !self.is_leaving {
            return Ok(());
        }
        let Self { identity, map, stamps, ticket, addresses, kill_switch, .. } = self;
        for file in [identity, map, stamps, ticket, addresses, kill_switch] {
            file.wipe(disk)?;
        }
        disk.force_directory(&self.path)?;
        self.leaving.remove(disk)?;
        disk.force_directory(&self.path)?;
        self.is_leaving = false;
        Ok(())
    }

    /// Saves the last good map, its relays as the coordinator named them, and the peers that have a session. Returns the file's size in bytes.
    pub(crate) fn save_map(
        &mut self,
        network: [u8; 16],
        map: &NetworkMap,
        named: &[Relay],
        recent: &[PublicKey],
    ) -> io::Result<usize> {
        let body = json(&MapToSave { network, recent, named, map })?;
        self.map.save(&body)?;
        Ok(body.len())
    }

    /// Returns the directory's path, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

fn json(value: &impl Serialize) -> io::Result<Vec<u8>> {
    taut_json::to_vec(value).map_err(io::Error::other)
}

/// Creates the directory and its missing parents, and forces their names to the disk: otherwise a power cut could remove the directory with
/// everything saved in it (fault K1).
fn make_directory(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> =
        path.ancestors().take_while(|part| !part.as_os_str().is_empty() && !part.exists()).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    for made in missing {
        let parent = made.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

/// Withdraws other users' permissions from the directory, unless it holds files of other programs: a `--state /etc` given by mistake must
/// not lock all other users out. The program's own files are closed to other users in any case.
fn close_to_others(path: &Path) -> io::Result<()> {
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        if !is_ours(&entry?.file_name()) {
            return Ok(());
        }
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))
}

fn is_ours(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    // `lost+found` is in the root of a file system that holds only this directory.
    [IDENTITY, MAP, STAMPS, TICKET, LEAVING, LOCK, EVENTS, "daemon.log", "lost+found"]
        .iter()
        .any(|ours| name.starts_with(ours))
}

fn lock(directory: &Path) -> Result<File, StartError> {
    let unusable = |error: io::Error| StartError::Directory { state_dir: directory.to_path_buf(), error };
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(directory.join(LOCK))
        .map_err(unusable)?;
    // A pipe is refused, because reading it would wait for a writer.
    if !file.metadata().map_err(unusable)?.is_file() {
        return Err(unusable(io::Error::other(format!("its {LOCK} is not a regular file; remove it"))));
    }
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let _ = file.take(16).read_to_string(&mut text);
            return Err(StartError::Locked { state_dir: directory.to_path_buf(), pid: text.trim().parse().ok() });
        }
        Err(TryLockError::Error(error)) => return Err(unusable(error)),
    }
    // The process id is for the error message of a second daemon; the lock itself does not need it.
    let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(file)
}

#[cfg(test)]
pub(crate) mod tests;
