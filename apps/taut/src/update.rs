//! `taut update`: tells whether a newer release exists, and replaces this program where no package manager owns it.
//!
//! - this file: the command line, and what a check finds;
//! - `source`: where releases are: a folder or a web server;
//! - `seen`: the newest release that this host has seen, so that an old list is recognised;
//! - `place`: how this program was installed, and by what it is replaced;
//! - `install`: download, switch, restart, and the way back;
//! - `trial`: whether a program starts, and whether its daemon answers.
//!
//! Nothing is looked for or installed unless somebody runs it: a daemon never replaces itself.

mod install;
mod place;
mod seen;
mod source;
mod trial;

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use taut_agent::api::SCHEMA;
use taut_base::format_time;
use taut_release::{Checksum, MAX_LIST, Program, Release, ReleaseKey, SIGNATURE, Version};

use crate::fault::Fault;
use crate::flags::{Word, Words, default_state, unexpected};
use crate::output;
use crate::version::VERSION;
use install::Done;
use place::Place;
use source::Source;

pub(crate) const ARGUMENTS: &str = "[--check | --install --yes] [--from URL] [--key FILE] [--json]";

pub(crate) const DETAILS: &str = "\
Tells whether a newer release exists. Nothing is downloaded but its signed list, and nothing is installed.

--check      look for a newer release (default)
--install    download it, check it, replace this program, and restart the services of this host; the former program is kept, and
             comes back if the new one does not answer. Where a package manager owns the program, print its command instead
--yes        install without asking: --install needs it
--from URL   folder of releases: http://, https://, file:// or a path (default: $TAUT_UPDATE_FROM, else /etc/taut/release.url)
--key FILE   public key that signs releases, in PEM, or its base64 line (default: $TAUT_UPDATE_KEY, else /etc/taut/release.pub)
--json       print an object, with a schema version";

/// The files in which an administrator keeps URL and key. They are no settings of the daemon, which never looks for releases.
const URL_FILE: &str = "/etc/taut/release.url";
const KEY_FILE: &str = "/etc/taut/release.pub";
/// Largest of these two files, 4 KiB: each has a line or three.
const LARGEST: u64 = 4 << 10;
/// The list of a release and its signature, as tools/shipping writes them.
const LIST: &str = "RELEASE";
const LIST_SIGNATURE: &str = "RELEASE.sig";
/// This program in a release. The tiny one has no `taut update`, so a program that runs this is replaced by the full one.
const PROGRAM: &str = "taut";
/// This program's processor, by the names of tools/shipping/targets.py.
const ARCHITECTURE: &str = match () {
    () if cfg!(target_arch = "x86_64") => "x86-64",
    () if cfg!(target_arch = "aarch64") => "aarch64",
    () if cfg!(target_arch = "arm") => "armv7",
    () if cfg!(all(target_arch = "mips", target_endian = "little")) => "mipsel",
    () if cfg!(target_arch = "mips") => "mips",
    () => std::env::consts::ARCH,
};

/// The parsed command line.
#[derive(Default)]
struct Options {
    check: bool,
    install: bool,
    yes: bool,
    from: Option<String>,
    key: Option<String>,
    json: bool,
}

/// The result of a look for a newer release.
struct Found {
    source: Source,
    release: Release,
    own: Version,
    program: Option<Program>,
    place: Place,
    /// The path of this program.
    path: PathBuf,
    /// True if this program is the one in the release. A program built before a release does not report its moment, so its version alone does not tell.
    is_this: bool,
}

/// The object that a check prints with `--json`.
#[derive(Serialize)]
struct Checked<'a> {
    schema: u32,
    /// The version of this program.
    version: String,
    /// The version of the release.
    newest: String,
    /// When its sources were committed.
    made: String,
    /// True if the release is newer than this program and has one for this processor.
    update_available: bool,
    program: &'a Path,
    /// `plain`, `package` or `container`.
    installed_as: &'static str,
    /// The file of the release for this processor; `null` if it has none.
    file: Option<&'a str>,
    /// Advice for the user: the commands to run next.
    hint: String,
}

pub(crate) fn run(words: Words) -> Result<(), Fault> {
    let options = parse(words)?;
    let found = look(&options)?;
    if options.install {
        return tell(&install::run(&found)?, options.json);
    }
    show(&found, options.json)
}

fn parse(mut words: Words) -> Result<Options, Fault> {
    let mut options = Options::default();
    while let Some(word) = words.next()? {
        match &word {
            Word::Flag(flag) if flag == "--check" => options.check = true,
            Word::Flag(flag) if flag == "--install" => options.install = true,
            Word::Flag(flag) if flag == "--yes" => options.yes = true,
            Word::Flag(flag) if flag == "--json" => options.json = true,
            Word::Flag(flag) if flag == "--from" => options.from = Some(words.value()?),
            Word::Flag(flag) if flag == "--key" => options.key = Some(words.value()?),
            other => return Err(unexpected(other)),
        }
    }
    match (options.check, options.install, options.yes) {
        (true, true, _) => Err(Fault::usage("give --check or --install, not both")),
        (_, false, true) => Err(Fault::usage("--yes belongs to --install")),
        (_, true, false) => Err(Fault::usage("--install replaces this program and restarts its services: add --yes")),
        _ => Ok(options),
    }
}

/// Reads the list of the release, and checks it against this program and against what this host has seen.
fn look(options: &Options) -> Result<Found, Fault> {
    let from = setting(options.from.as_deref(), "TAUT_UPDATE_FROM", URL_FILE)?.ok_or_else(no_source)?;
    let key = key(setting(options.key.as_deref(), "TAUT_UPDATE_KEY", KEY_FILE)?)?;
    let source = Source::parse(&from)?;
    let list = source.read(LIST, MAX_LIST)?;
    let signature = source.read(LIST_SIGNATURE, SIGNATURE)?;
    let release = Release::open(&list, &signature, &key).map_err(|bad| {
        let hint = "do not use what is there; compare the key with the one of the project, and try again later";
        Fault::failed(format!("the list of releases at {from} is not used: {bad}"), hint)
    })?;
    let own: Version =
        VERSION.parse().map_err(|()| Fault::failed("this program has no version", "install it from a release"))?;
    if !release.version.is_for(&own) {
        return Err(Fault::failed(
            format!(
                "the list is that of taut {}, which comes before a release, and this program is a release",
                release.version
            ),
            "use the URL of releases; to try what comes before one, install it by hand",
        ));
    }
    seen::note(&default_state(), &release)?;
    let path = std::env::current_exe()
        .map_err(|error| Fault::failed(format!("the path of this program is not known: {error}"), ""))?;
    let program = release.program(PROGRAM, ARCHITECTURE).cloned();
    let place = Place::find(&path, Path::new("/"));
    let is_this = program.as_ref().is_some_and(|program| is_file(&path, program));
    Ok(Found { source, release, own, program, place, path, is_this })
}

/// Returns the value of a flag, else of a variable, else of a file.
fn setting(flag: Option<&str>, variable: &str, file: &str) -> Result<Option<String>, Fault> {
    let given = flag.map(String::from).or_else(|| std::env::var(variable).ok()).filter(|text| !text.trim().is_empty());
    if given.is_some() {
        return Ok(given);
    }
    match read_small(Path::new(file)) {
        Ok(text) => Ok(Some(String::from(text.trim())).filter(|text| !text.is_empty())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Fault::failed(format!("{file} cannot be read: {error}"), "make it readable, or remove it")),
    }
}

fn read_small(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let read = std::io::Read::take(taut_event::open_regular(path)?, LARGEST + 1);
    std::io::Read::read_to_string(&mut { read }, &mut text)?;
    if text.len() as u64 > LARGEST {
        return Err(std::io::Error::other("it is too large"));
    }
    Ok(text)
}

fn no_source() -> Fault {
    Fault::failed(
        "no place of releases is set",
        format!(
            "name one with --from URL, with TAUT_UPDATE_FROM, or in the file {URL_FILE}; it is a folder that `make packages` made"
        ),
    )
}

/// Reads the key: the text itself, or a file with it.
fn key(given: Option<String>) -> Result<ReleaseKey, Fault> {
    let Some(text) = given else {
        return Err(Fault::failed(
            "the key that signs releases is not known to this host",
            format!(
                "name its file with --key FILE or TAUT_UPDATE_KEY, or put it at {KEY_FILE}: it is the `taut-packages.pub` that came with the release which you trust"
            ),
        ));
    };
    if let Ok(key) = text.parse() {
        return Ok(key);
    }
    let file = read_small(Path::new(&text))
        .map_err(|error| Fault::failed(format!("the key {text} cannot be read: {error}"), "name a file with --key"))?;
    file.parse().map_err(|()| {
        Fault::failed(
            format!("{text} has no public key for Ed25519"),
            "it is written by `openssl pkey -pubout`, and begins with BEGIN PUBLIC KEY",
        )
    })
}

impl Found {
    /// Returns true if the release is newer than this program.
    fn is_newer(&self) -> bool {
        self.release.version > self.own && !self.is_this
    }

    /// Says what to do next.
    fn hint(&self) -> String {
        match (&self.program, self.is_newer()) {
            (_, false) => String::from("nothing to do"),
            (None, true) => format!("the release has no program for {ARCHITECTURE}: build it from its sources"),
            (Some(_), true) => self.place.advice(&self.release.version),
        }
    }
}

/// Returns true if the file is this program of a release.
fn is_file(path: &Path, program: &Program) -> bool {
    let mut sum = Checksum::new();
    let read = taut_event::open_regular(path).and_then(|mut file| {
        let mut block = vec![0; 64 * 1024];
        loop {
            match std::io::Read::read(&mut file, &mut block)? {
                0 => return Ok(()),
                length => sum.add(&block[..length]),
            }
        }
    });
    read.is_ok() && sum.finish() == program.sha256
}

fn show(found: &Found, json: bool) -> Result<(), Fault> {
    let Found { release, own, program, place, path, .. } = found;
    let made = format_time(Duration::from_secs(release.made)).replace(".000Z", "Z");
    let hint = found.hint();
    if json {
        return output::print_json(&Checked {
            schema: SCHEMA,
            version: own.to_string(),
            newest: release.version.to_string(),
            made,
            update_available: found.is_newer() && program.is_some(),
            program: path,
            installed_as: place.name(),
            file: program.as_ref().map(|program| program.file.as_str()),
            hint,
        });
    }
    let verdict = match found.is_newer() {
        true => format!("taut {} is newer than this program, {own}", release.version),
        false => format!("this program, taut {own}, is the newest: the release there is {}", release.version),
    };
    output::print(&format!("{verdict}\nits sources are of {made}\n{hint}"))
}

fn tell(done: &Done, json: bool) -> Result<(), Fault> {
    if json {
        return output::print_json(done);
    }
    output::print(&done.text())
}

/// Reads a whole file of at most `most` bytes.
fn read_file(path: &Path, most: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = taut_event::open_regular(path)?;
    std::io::Read::read_to_end(&mut std::io::Read::take(file, most as u64 + 1), &mut bytes)?;
    if bytes.len() > most {
        return Err(std::io::Error::other(format!("it has more than {most} bytes")));
    }
    Ok(bytes)
}

/// Writes a file whole: at any moment there is the former one or this one. The directory may belong to another user, whose links are not followed.
fn replace_file(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    std::io::Write::write_all(&mut file, bytes)?;
    fs::rename(&new, path)
}
