//! Landlock: the files that a process may reach (man 7 landlock, include/uapi/linux/landlock.h).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::checked;

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REMOVE_DIR: u64 = 1 << 4;
const REMOVE_FILE: u64 = 1 << 5;
const MAKE_CHAR: u64 = 1 << 6;
const MAKE_DIR: u64 = 1 << 7;
const MAKE_REG: u64 = 1 << 8;
const MAKE_SOCK: u64 = 1 << 9;
const MAKE_FIFO: u64 = 1 << 10;
const MAKE_BLOCK: u64 = 1 << 11;
const MAKE_SYM: u64 = 1 << 12;
/// Rename or link into another directory (version 2).
const REFER: u64 = 1 << 13;
/// Version 3.
const TRUNCATE: u64 = 1 << 14;
/// `ioctl` on devices (version 5).
const IOCTL_DEV: u64 = 1 << 15;
/// Connect to unix sockets by their paths (version 9).
const RESOLVE_UNIX: u64 = 1 << 16;
/// All rights of version 1.
const FIRST: u64 = EXECUTE
    | WRITE_FILE
    | READ_FILE
    | READ_DIR
    | REMOVE_DIR
    | REMOVE_FILE
    | MAKE_CHAR
    | MAKE_DIR
    | MAKE_REG
    | MAKE_SOCK
    | MAKE_FIFO
    | MAKE_BLOCK
    | MAKE_SYM;
/// Rights that a file can have; a rule for a file with one of a directory is refused.
const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;
/// No abstract unix sockets and no signals outside of the sandbox (version 6).
const SCOPES: u64 = 1 | 1 << 1;

/// What may be done below a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read files and list directories.
    Read,
    /// That, and write files that exist.
    Write,
    /// That, and make, rename and remove files, directories and sockets.
    Change,
    /// Read, write and configure devices.
    Device,
}

impl Access {
    fn bits(self) -> u64 {
        match self {
            Self::Read => READ_FILE | READ_DIR,
            Self::Write => Self::Read.bits() | WRITE_FILE | TRUNCATE,
            Self::Change => Self::Write.bits() | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SOCK | REFER,
            Self::Device => READ_FILE | WRITE_FILE | IOCTL_DEV,
        }
    }
}

/// `struct landlock_ruleset_attr`. An older kernel takes a longer structure if it does not know only zeros of it.
#[repr(C)]
struct Handled {
    files: u64,
    ports: u64,
    scopes: u64,
}

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct Beneath {
    allowed: u64,
    parent: i32,
}

const RULE_PATH_BENEATH: libc::c_int = 1;
const CREATE_VERSION: u32 = 1;

/// A list of paths that may be reached, for [`Ruleset::enter`].
pub struct Ruleset {
    rules: OwnedFd,
    files: u64,
    version: u32,
    places: Vec<File>,
}

impl Ruleset {
    /// Begins a list that allows nothing, neither files nor, as far as the kernel knows these rights, unix sockets and signals to other processes.
    ///
    /// # Errors
    /// `ENOSYS` or `EOPNOTSUPP` if the kernel was built or started without Landlock (Linux 5.13).
    pub fn new() -> io::Result<Self> {
        Self::about(RESOLVE_UNIX, SCOPES)
    }

    /// The same for files alone, for a program whose libraries ask others over unix sockets.
    ///
    /// # Errors
    /// As [`Ruleset::new`].
    pub fn of_files() -> io::Result<Self> {
        Self::about(0, 0)
    }

    fn about(sockets: u64, scopes: u64) -> io::Result<Self> {
        // SAFETY: no pointers but null, which this flag asks for.
        let version = checked(unsafe {
            libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<Handled>(), 0_usize, CREATE_VERSION)
        })?;
        let version = u32::try_from(version).unwrap_or(1);
        let since = |first: u32, rights: u64| if version >= first { rights } else { 0 };
        let files = FIRST | since(2, REFER) | since(3, TRUNCATE) | since(5, IOCTL_DEV) | since(9, sockets);
        let handled = Handled { files, ports: 0, scopes: since(6, scopes) };
        // SAFETY: `handled` lives across the call, and the size is its own.
        let rules = checked(unsafe {
            libc::syscall(libc::SYS_landlock_create_ruleset, &raw const handled, size_of::<Handled>(), 0_u32)
        })?;
        let rules = libc::c_int::try_from(rules).map_err(io::Error::other)?;
        // SAFETY: a new descriptor that nothing else owns.
        Ok(Self { rules: unsafe { OwnedFd::from_raw_fd(rules) }, files, version, places: Vec::new() })
    }

    /// Allows this access to what is at `path`, and below it if it is a directory. A rule belongs to the file that has this name now: a directory whose files are
    /// replaced by others needs a rule of its own.
    ///
    /// # Errors
    /// If there is no such path.
    pub fn allow(&mut self, path: &Path, access: Access) -> io::Result<()> {
        let place = OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_CLOEXEC).open(path)?;
        let kind = if place.metadata()?.is_dir() { u64::MAX } else { OF_FILES };
        let rule = Beneath { allowed: access.bits() & self.files & kind, parent: place.as_raw_fd() };
        // SAFETY: `rule` lives across the call, which only reads it.
        checked(unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                self.rules.as_raw_fd(),
                RULE_PATH_BENEATH,
                &raw const rule,
                0_u32,
            )
        })?;
        self.places.push(place);
        Ok(())
    }

    /// Closes every other path for the calling thread and for those that it starts from now on. Returns the version of Landlock. Needs
    /// [`crate::no_new_privileges`].
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn enter(self) -> io::Result<u32> {
        // SAFETY: no pointers.
        checked(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, self.rules.as_raw_fd(), 0_u32) })?;
        // A directory of /proc or /sys that nobody has open may be forgotten under memory pressure. It is a new one afterwards, without the rule.
        self.places.into_iter().for_each(std::mem::forget);
        Ok(self.version)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::ErrorKind;
    use std::path::Path;
    use std::thread;

    use super::{Access, Ruleset};
    use crate::no_new_privileges;

    #[test]
    fn a_thread_reaches_only_what_is_allowed() {
        let root = std::env::temp_dir().join(format!("taut-sandbox-{}", std::process::id()));
        let at = |name: &str| root.join(name);
        fs::create_dir_all(at("open/below")).unwrap();
        fs::create_dir(at("read")).unwrap();
        for file in ["open/file", "read/file", "closed"] {
            fs::write(at(file), "text").unwrap();
        }
        let Ok(mut rules) = Ruleset::new() else { return fs::remove_dir_all(&root).unwrap() };
        rules.allow(&at("open"), Access::Change).unwrap();
        rules.allow(&at("read"), Access::Read).unwrap();
        rules.allow(Path::new("/dev/null"), Access::Device).unwrap();
        assert_eq!(rules.allow(&at("none"), Access::Read).unwrap_err().kind(), ErrorKind::NotFound);
        let place = root.clone();
        let refused = thread::spawn(move || {
            let at = |name: &str| place.join(name);
            no_new_privileges().unwrap();
            assert!(rules.enter().unwrap() >= 1);
            fs::rename(at("open/file"), at("open/other")).unwrap();
            fs::write(at("open/new"), fs::read(at("read/file")).unwrap()).unwrap();
            fs::remove_file(at("open/new")).unwrap();
            assert_eq!(fs::read_dir(at("read")).unwrap().count(), 1);
            fs::write("/dev/null", "x").unwrap();
            // A thread that is started later has the same rules.
            let inherited = thread::spawn({
                let closed = at("closed");
                move || fs::read(closed).map(drop)
            });
            [
                fs::read(at("closed")).map(drop),
                inherited.join().unwrap(),
                fs::write(at("read/file"), "x"),
                fs::write(at("read/new"), "x"),
                fs::remove_file(at("closed")),
                fs::read_dir("/").map(drop),
            ]
        })
        .join()
        .unwrap();
        for answer in refused {
            assert_eq!(answer.unwrap_err().kind(), ErrorKind::PermissionDenied);
        }
        assert_eq!(fs::read_to_string(at("closed")).unwrap(), "text", "other threads have no such rules");
        fs::remove_dir_all(&root).unwrap();
    }
}
