//! Where releases are: a folder of this host, or one of a web server.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use taut_control::{AUTHORITIES, Url, download};

use super::read_file;
use crate::fault::Fault;

/// Longest time for a list, 30 s, and for a program, 15 minutes: 3 MB over a line of 32 kbit/s.
const LIST_TIME: Duration = Duration::from_secs(30);
const PROGRAM_TIME: Duration = Duration::from_secs(15 * 60);

/// A folder with releases.
pub(super) enum Source {
    Folder(PathBuf),
    Web(Url),
}

impl Source {
    /// Parses `http://…`, `https://…`, `file:///…` or a path.
    pub(super) fn parse(text: &str) -> Result<Self, Fault> {
        let text = text.trim();
        if let Some(path) = text.strip_prefix("file://") {
            return Ok(Self::Folder(PathBuf::from(path)));
        }
        if !text.contains("://") {
            return Ok(Self::Folder(PathBuf::from(text)));
        }
        text.parse()
            .map(Self::Web)
            .map_err(|_| Fault::usage(format!("--from {text}: write http://…, https://…, file:///… or a path")))
    }

    /// Returns a small file of it.
    pub(super) fn read(&self, name: &str, most: usize) -> Result<Vec<u8>, Fault> {
        let read = match self {
            Self::Folder(folder) => read_file(&folder.join(name), most).map_err(|error| error.to_string()),
            Self::Web(url) => {
                let mut bytes = Vec::new();
                web(url, name, most as u64, LIST_TIME, &mut bytes).map(|_| bytes)
            }
        };
        read.map_err(|error| self.failed(name, &error))
    }

    /// Writes a program of it, of `most` bytes, to `into`; returns its length.
    pub(super) fn copy(&self, name: &str, most: u64, into: &mut dyn Write) -> Result<u64, Fault> {
        let copied = match self {
            Self::Folder(folder) => copy_file(&folder.join(name), most, into).map_err(|error| error.to_string()),
            Self::Web(url) => web(url, name, most, PROGRAM_TIME, into),
        };
        copied.map_err(|error| self.failed(name, &error))
    }

    fn failed(&self, name: &str, error: &str) -> Fault {
        let (place, hint) = match self {
            Self::Folder(folder) => {
                (folder.display().to_string(), "check the path: it is a folder that `make packages` made")
            }
            Self::Web(url) => {
                (format!("{}{}", url.authority(), url.path), "check the URL and this host's connection, and try again")
            }
        };
        Fault::failed(format!("{name} at {place} cannot be had: {error}"), hint)
    }
}

fn copy_file(path: &Path, most: u64, into: &mut dyn Write) -> io::Result<u64> {
    let file: File = taut_event::open_regular(path)?;
    io::copy(&mut file.take(most + 1), into)
}

fn web(url: &Url, name: &str, most: u64, limit: Duration, into: &mut dyn Write) -> Result<u64, String> {
    let own = std::env::var("SSL_CERT_FILE").ok();
    let files: Vec<&Path> = own.iter().map(Path::new).chain(AUTHORITIES.iter().map(Path::new)).collect();
    download(url, &format!("/{name}"), &files, most, limit, into).map_err(|broken| broken.0)
}
