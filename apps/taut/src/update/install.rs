//! Replaces this program: download beside it, check, switch by one rename, restart the services, and go back if the new program does not answer.
//!
//! A crash or a power cut at any moment leaves the former program or the new one at its path, each whole; the former one is also at `taut.previous` from before the switch.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::Serialize;
use taut_agent::api::SCHEMA;
use taut_release::{Checksum, Program};

use super::{Found, Place, trial};
use crate::client::Client;
use crate::fault::Fault;
use crate::flags::default_socket;
use crate::service::Running;

/// Mode of a program that everybody may run.
const MODE: u32 = 0o755;

/// The object that `--install` prints with `--json`.
#[derive(Serialize)]
pub(super) struct Done {
    schema: u32,
    /// `installed` or `nothing-to-do`; a failure is an error.
    outcome: &'static str,
    from: String,
    to: String,
    program: PathBuf,
    /// Where the former program is.
    previous: Option<PathBuf>,
    /// The services that were restarted.
    restarted: Vec<String>,
    hints: Vec<String>,
}

impl Done {
    /// Returns what was done, for people.
    pub(super) fn text(&self) -> String {
        let mut lines = vec![match self.outcome {
            "installed" => format!("{} is taut {} now; it was {}", self.program.display(), self.to, self.from),
            _ => format!("nothing to do: this program is taut {}, and the release {}", self.from, self.to),
        }];
        lines.extend(self.restarted.iter().map(|service| format!("restarted {service}; it answers")));
        lines.extend(self.previous.iter().map(|path| format!("the former program is {}", path.display())));
        lines.extend(self.hints.iter().cloned());
        lines.join("\n")
    }
}

/// Installs the release that was found.
pub(super) fn run(found: &Found) -> Result<Done, Fault> {
    let Found { source, release, own, place, path, .. } = found;
    let done = |outcome| Done {
        schema: SCHEMA,
        outcome,
        from: own.to_string(),
        to: release.version.to_string(),
        program: path.clone(),
        previous: None,
        restarted: Vec::new(),
        hints: Vec::new(),
    };
    if release.version < *own && !release.version.is_reported_as(own) {
        return Err(Fault::failed(
            format!("taut {} is older than this program, {own}: an older release is not installed", release.version),
            "an older daemon may not read what this one saved; to go back all the same, stop the service and copy the program by hand",
        ));
    }
    if !found.is_newer() {
        return Ok(done("nothing-to-do"));
    }
    if *place != Place::Plain {
        return Err(Fault::failed(
            "this program is not replaced: something else owns it",
            place.advice(&release.version),
        ));
    }
    let Some(program) = &found.program else {
        return Err(Fault::failed("this program is not replaced", found.hint()));
    };
    let files = Files::of(path);
    // Until the new daemon answers, or the former one again.
    let _lock = files.lock()?;
    let fetched = fetch(source, program, &files).and_then(|()| {
        let refuse = |why| {
            Fault::failed(
                format!("{} is not installed: {why}", program.file),
                "report it to who made the release; nothing was changed",
            )
        };
        trial::starts(&files.new, &release.version).map_err(refuse)
    });
    if let Err(fault) = fetched {
        let _ = fs::remove_file(&files.new);
        return Err(fault);
    }
    let running = Running::find(path);
    files.switch().map_err(|error| files.denied(&error))?;
    if let Err(why) = restart(&running, &release.version) {
        return Err(go_back(&files, &running, own, &why));
    }
    let mut done = done("installed");
    if running.services().is_empty() && Client::connect(&default_socket()).is_ok() {
        done.hints.push(String::from(
            "the daemon that runs is no service of this program, and was not restarted: `taut down`, then `taut up`",
        ));
    }
    let beside = path.with_file_name("taut-userspace");
    if beside.exists() {
        done.hints.push(format!(
            "{} is still of taut {own}: put the one of this release in its place, and restart the node",
            beside.display()
        ));
    }
    (done.previous, done.restarted) = (Some(files.previous), running.services().to_vec());
    Ok(done)
}

fn restart(running: &Running, version: &taut_release::Version) -> Result<(), String> {
    running.restart().map_err(|fault| fault.message())?;
    trial::answer(running.sockets(), version)
}

/// Puts the former program back, and has it run again.
fn go_back(files: &Files, running: &Running, own: &taut_release::Version, why: &str) -> Fault {
    let log = "`taut log` and the log of the service manager tell more; report it";
    if let Err(error) = files.undo() {
        let message = format!("the new program does not work ({why}), and the former one cannot be put back: {error}");
        let hint = format!("`mv {} {}`, and restart the service", files.previous.display(), files.path.display());
        return Fault::failed(message, hint);
    }
    match restart(running, own) {
        Ok(()) => Fault::failed(format!("the new program does not work: {why}; taut {own} is back, and answers"), log),
        Err(again) => Fault::failed(
            format!("the new program does not work: {why}; taut {own} is back, and does not answer either: {again}"),
            log,
        ),
    }
}

/// The program and its neighbours, all on one file system.
struct Files {
    path: PathBuf,
    new: PathBuf,
    previous: PathBuf,
    lock: PathBuf,
}

impl Files {
    fn of(path: &Path) -> Self {
        let beside = |end: &str| {
            let mut name = path.file_name().unwrap_or_default().to_os_string();
            name.push(end);
            path.with_file_name(name)
        };
        Self { path: path.to_path_buf(), new: beside(".new"), previous: beside(".previous"), lock: beside(".lock") }
    }

    /// Keeps a second update out, until the returned lock is dropped.
    fn lock(&self) -> Result<Lock, Fault> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.lock);
        let file = file.map_err(|error| self.denied(&error))?;
        let busy = || Fault::failed("another `taut update` is at work", "wait for its end");
        file.try_lock().map_err(|_| busy())?;
        // The one before removed its file at its end: a lock on that one would keep nobody out.
        let is_there = |file: &File| Ok::<_, io::Error>(file.metadata()?.ino() == fs::metadata(&self.lock)?.ino());
        if !is_there(&file).unwrap_or(false) {
            return Err(busy());
        }
        Ok(Lock { path: self.lock.clone(), _file: file })
    }

    fn denied(&self, error: &io::Error) -> Fault {
        let folder = self.path.parent().unwrap_or(Path::new("/")).display();
        let hint = match error.kind() {
            io::ErrorKind::PermissionDenied => "try again with sudo",
            io::ErrorKind::StorageFull => "make room there: twice the size of the program",
            _ => "make the file system writable",
        };
        Fault::failed(format!("{folder} cannot be written: {error}; nothing was changed"), hint)
    }

    /// Keeps the former program, and puts the new one in its place.
    fn switch(&self) -> io::Result<()> {
        let _ = fs::remove_file(&self.previous);
        // A link where the file system has them, so that the former program is at its path until the moment of the rename.
        fs::hard_link(&self.path, &self.previous).or_else(|_| fs::copy(&self.path, &self.previous).map(|_| ()))?;
        fs::rename(&self.new, &self.path)?;
        // Both names are right already, and a crash before the disk knows them leaves the former program.
        let _ = self.sync();
        Ok(())
    }

    /// Puts the former program back.
    fn undo(&self) -> io::Result<()> {
        fs::rename(&self.previous, &self.path)?;
        self.sync()
    }

    /// Has the disk know the names.
    fn sync(&self) -> io::Result<()> {
        File::open(self.path.parent().unwrap_or(Path::new("/")))?.sync_all()
    }
}

/// Held while an update is at work.
struct Lock {
    path: PathBuf,
    _file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Downloads a program beside the one that runs, and checks its length and checksum.
fn fetch(source: &super::Source, program: &Program, files: &Files) -> Result<(), Fault> {
    // One that a crash left is of no use.
    let _ = fs::remove_file(&files.new);
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&files.new);
    let mut into = Summed { file: made.map_err(|error| files.denied(&error))?, sum: Checksum::new() };
    let length = source.copy(&program.file, program.bytes, &mut into)?;
    let refuse = |why: String| {
        Fault::failed(format!("{} is not installed: {why}", program.file), "try again; nothing was changed")
    };
    if length != program.bytes {
        return Err(refuse(format!("it has {length} bytes, and the release says {}", program.bytes)));
    }
    let Summed { file, sum } = into;
    if sum.finish() != program.sha256 {
        return Err(refuse(String::from("its checksum is not that of the release")));
    }
    let ready = file.set_permissions(fs::Permissions::from_mode(MODE)).and_then(|()| file.sync_all());
    ready.map_err(|error| files.denied(&error))
}

/// A file, and the checksum of what is written to it.
struct Summed {
    file: File,
    sum: Checksum,
}

impl Write for Summed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.sum.add(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
