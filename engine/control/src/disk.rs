//! One state file that survives power cuts (fault K1) and distinguishes damage from absence (fault K2).
//!
//! On disk: `NAME` (live), `NAME.prev` (the previous live file), and, while a save is under way, `NAME.new`. A save writes `NAME.new`,
//! forces it to the disk, keeps the live file as the previous one, renames the new file to `NAME`, and forces the directory to the disk. At
//! every moment one of the three is whole.
//!
//! ```text
//! taut-state 1 <BLAKE2s-256 of "taut-state 1\n" and the body, as 64 hex digits>\n
//! <body>
//! ```

#[cfg(test)]
mod power;
mod system;

use std::fmt;
use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use taut_event::effective_uid;
use zeroize::Zeroizing;

pub(crate) use system::{Disk, System};

/// Version of the format that this program writes.
const FORMAT: u32 = 1;
/// First word of the header.
const MAGIC: &str = "taut-state";
/// Largest file that is read, in bytes: twice the largest message that can carry a map.
const MAX_FILE: u64 = 2 * taut_noise::MAX_MESSAGE as u64;

/// A state file.
#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
    /// True if the live file is known to be whole. Only then does a save keep it as the previous one.
    live_is_whole: bool,
}

/// Result of a load.
pub(crate) struct Loaded {
    /// The body; it may hold secrets.
    pub(crate) body: Zeroizing<Vec<u8>>,
    /// Notes for the user, for example that the previous copy was read and why, or that other users could read the file.
    pub(crate) notes: Vec<String>,
}

/// Reason why a copy of a file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    /// The file does not exist.
    Missing,
    /// The file has no bytes.
    Empty,
    /// The header, the length or the checksum is wrong.
    Altered,
    /// The path is a directory, a link or something else that is not a regular file.
    NotAFile,
    /// The file belongs to another user, with this uid, who may have changed it.
    Foreign(u32),
    /// The file is whole, but a later version of the program wrote it. The number is its format.
    Later(u32),
    /// The system refused to read the file, with this error.
    Unreadable(String),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("is missing"),
            Self::Empty => f.write_str("is empty"),
            Self::Altered => f.write_str("is cut or altered (its checksum does not match)"),
            Self::NotAFile => f.write_str("is not a regular file"),
            Self::Foreign(uid) => write!(f, "belongs to another user (uid {uid}; `chown` it if it is yours)"),
            Self::Later(format) => write!(f, "has format {format}, which this version of taut does not know"),
            Self::Unreadable(why) => write!(f, "cannot be read ({why})"),
        }
    }
}

/// The error of a load if neither the live nor the previous copy can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unusable {
    path: PathBuf,
    live: Damage,
    previous: Damage,
}

impl Unusable {
    /// Returns true if a copy is whole, but this program is too old for its format.
    pub(crate) fn is_later_format(&self) -> bool {
        matches!(self.live, Damage::Later(_))
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, live, previous } = self;
        write!(f, "{} {live}", path.display())?;
        if self.is_later_format() {
            return Ok(());
        }
        write!(f, ", and its previous copy {} {previous}", beside(path, "prev").display())
    }
}

impl StateFile {
    /// Returns the state file at `path`. Nothing is read or written yet.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, live_is_whole: false }
    }

    /// Reads the live copy, or else the previous one, or else the new one of a first save that was cut off before its last step. Returns `None` if there is
    /// no copy.
    ///
    /// # Errors
    /// If copies exist, but none is whole, or a later version of the program wrote them.
    pub(crate) fn load(&mut self) -> Result<Option<Loaded>, Unusable> {
        let mut notes: Vec<String> =
            [self.path.clone(), beside(&self.path, "prev")].iter().filter_map(closed).collect();
        let live = match read_whole(&self.path) {
            Ok(body) => {
                self.live_is_whole = true;
                return Ok(Some(Loaded { body, notes }));
            }
            Err(damage) => damage,
        };
        let previous = match read_whole(&beside(&self.path, "prev")) {
            Ok(body) if !matches!(live, Damage::Later(_)) => {
                notes.push(format!("{} {live}; its previous copy was read instead", self.path.display()));
                return Ok(Some(Loaded { body, notes }));
            }
            Ok(_) => Damage::Missing,
            Err(damage) => damage,
        };
        if live != Damage::Missing || previous != Damage::Missing {
            return Err(Unusable { path: self.path.clone(), live, previous });
        }
        // The first save was cut off. Its new file is used if it is whole. Otherwise it is ignored, because that save was never acknowledged.
        let unfinished = read_whole(&beside(&self.path, "new")).ok();
        Ok(unfinished.map(|body| {
            notes.push(format!(
                "{} is missing; the copy that was about to become it was read instead",
                self.path.display()
            ));
            Loaded { body, notes }
        }))
    }

    /// Overwrites and removes all copies. The caller forces the directory to the disk.
    ///
    /// # Errors
    /// If the disk refuses; some copies may be removed by then. Another call continues where this one stopped.
    pub(crate) fn wipe(&mut self, disk: &mut impl Disk) -> io::Result<()> {
        for copy in self.copies() {
            // Anything but a regular file is only unlinked, so that nothing is written through a link.
            if fs::symlink_metadata(&copy).is_ok_and(|metadata| metadata.is_file()) {
                disk.overwrite(&copy)?;
            }
        }
        self.remove(disk)
    }

    /// Removes all copies, the live one last.
    pub(crate) fn remove(&mut self, disk: &mut impl Disk) -> io::Result<()> {
        self.live_is_whole = false;
        self.copies().iter().try_for_each(|copy| remove_if_there(disk, copy))
    }

    fn copies(&self) -> [PathBuf; 3] {
        [beside(&self.path, "new"), beside(&self.path, "prev"), self.path.clone()]
    }

    /// Replaces the live copy. After a power cut at any moment either the new or the old content is there, whole.
    ///
    /// # Errors
    /// If the disk is full, read-only or broken. The old copy is then still there.
    pub(crate) fn save(&mut self, body: &[u8]) -> io::Result<()> {
        self.save_on(&mut System, body)
    }

    /// [`Self::save`], on any disk.
    pub(crate) fn save_on(&mut self, disk: &mut impl Disk, body: &[u8]) -> io::Result<()> {
        self.replace(disk, body).map_err(|error| named(&self.path, &error))
    }

    fn replace(&mut self, disk: &mut impl Disk, body: &[u8]) -> io::Result<()> {
        let new = beside(&self.path, "new");
        write_forced(disk, &new, body).inspect_err(|_| {
            let _ = disk.remove(&new);
        })?;
        if self.live_is_whole {
            self.keep_previous(disk)?;
        }
        disk.rename(&new, &self.path)?;
        self.live_is_whole = true;
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        disk.force_directory(directory.unwrap_or(Path::new(".")))
    }

    /// Keeps the live file also as the previous one. A hard link keeps both names at every moment. On a file system without hard links a
    /// rename leaves only the previous name for a moment, which a load survives.
    fn keep_previous(&mut self, disk: &mut impl Disk) -> io::Result<()> {
        let previous = beside(&self.path, "prev");
        remove_if_there(disk, &previous)?;
        match disk.link(&self.path, &previous) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(_) => {
                disk.rename(&self.path, &previous)?;
                // If the save fails from here on, the previous copy is the only one, and the next save must not replace it.
                self.live_is_whole = false;
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

/// Returns the path `NAME.extension` beside `NAME`.
pub(crate) fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    PathBuf::from(name)
}

/// Returns the error of a save with the name of the file, and with the reason that a user knows.
fn named(path: &Path, error: &io::Error) -> io::Error {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let full = match error.kind() {
        io::ErrorKind::StorageFull => "the disk is full: ",
        io::ErrorKind::QuotaExceeded => "the disk quota of this user is used up: ",
        _ => "",
    };
    io::Error::new(error.kind(), format!("{name}: {full}{error}"))
}

fn write_forced(disk: &mut impl Disk, path: &Path, body: &[u8]) -> io::Result<()> {
    remove_if_there(disk, path)?;
    let mut file = disk.create(path)?;
    disk.write(&mut file, header(FORMAT, body).as_bytes())?;
    disk.write(&mut file, body)?;
    disk.force(&mut file)
}

fn remove_if_there(disk: &mut impl Disk, path: &Path) -> io::Result<()> {
    match disk.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Withdraws other users' permissions from a state file. Returns a note for the user if the file had any.
fn closed(path: &PathBuf) -> Option<String> {
    let metadata = fs::symlink_metadata(path).ok()?;
    let mode = metadata.mode() & 0o777;
    if !metadata.is_file() || mode & 0o077 == 0 || metadata.uid() != effective_uid() {
        return None;
    }
    let now = match fs::set_permissions(path, Permissions::from_mode(0o600)) {
        Ok(()) => String::from("it is closed now"),
        Err(error) => format!("it cannot be closed ({error}; `chmod 600` it)"),
    };
    Some(format!("{} was open to other users (mode {mode:04o}), who may have read it; {now}", path.display()))
}

/// Returns the bytes of a file with this body.
pub(crate) fn whole(body: &[u8]) -> Vec<u8> {
    [header(FORMAT, body).as_bytes(), body].concat()
}

fn header(format: u32, body: &[u8]) -> String {
    let first = format!("{MAGIC} {format}");
    let checksum = hex(&taut_noise::hash(&[first.as_bytes(), b"\n", body]));
    format!("{first} {checksum}\n")
}

/// Returns the bytes as lower-case hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read_whole(path: &Path) -> Result<Zeroizing<Vec<u8>>, Damage> {
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Damage::Missing,
        _ => Damage::Unreadable(error.to_string()),
    };
    // The file type is checked before the file is opened, because opening a pipe blocks until a writer opens it, too.
    let metadata = fs::symlink_metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(Damage::NotAFile);
    }
    if ![0, effective_uid()].contains(&metadata.uid()) {
        return Err(Damage::Foreign(metadata.uid()));
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(usize::try_from(metadata.len().min(MAX_FILE)).unwrap_or(0)));
    File::open(path).and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes)).map_err(unreadable)?;
    open_whole(bytes)
}

/// Returns the body of a file with these bytes, if its header and checksum are right.
pub(crate) fn open_whole(mut bytes: Zeroizing<Vec<u8>>) -> Result<Zeroizing<Vec<u8>>, Damage> {
    if bytes.is_empty() {
        return Err(Damage::Empty);
    }
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or(Damage::Altered)?;
    let (head, body) = bytes.split_at(end + 1);
    let format = format_of(head).ok_or(Damage::Altered)?;
    if header(format, body).as_bytes() != head {
        return Err(Damage::Altered);
    }
    if format != FORMAT {
        return Err(Damage::Later(format));
    }
    bytes.drain(..=end);
    Ok(bytes)
}

fn format_of(head: &[u8]) -> Option<u32> {
    let mut first = std::str::from_utf8(head).ok()?.split(' ');
    if first.next()? != MAGIC {
        return None;
    }
    first.next()?.parse().ok()
}

#[cfg(test)]
pub(crate) mod tests;
