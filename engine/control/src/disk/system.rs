//! The disk operations of a save, one method per system call, so that a test can cut the power or fill the disk between any two of them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A disk. [`System`] is the real one.
pub(crate) trait Disk {
    /// An open file.
    type File;
    /// Creates a file that only its owner may read.
    fn create(&mut self, path: &Path) -> io::Result<Self::File>;
    /// Appends all of `bytes`.
    fn write(&mut self, file: &mut Self::File, bytes: &[u8]) -> io::Result<()>;
    /// Waits until the file's content is on the disk.
    fn force(&mut self, file: &mut Self::File) -> io::Result<()>;
    /// Fills a file with zeros, and waits until they are on the disk.
    fn overwrite(&mut self, path: &Path) -> io::Result<()>;
    /// Removes a name.
    fn remove(&mut self, path: &Path) -> io::Result<()>;
    /// Gives a file a second name.
    fn link(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    /// Renames a file. An existing file with the new name is replaced.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    /// Waits until the directory's names are on the disk.
    fn force_directory(&mut self, directory: &Path) -> io::Result<()>;
}

/// The disk of this host.
pub(crate) struct System;

impl Disk for System {
    type File = File;

    fn create(&mut self, path: &Path) -> io::Result<File> {
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
    }

    fn write(&mut self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    fn force(&mut self, file: &mut File) -> io::Result<()> {
        file.sync_all()
    }

    fn overwrite(&mut self, path: &Path) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(path)?;
        // The program's own files are not longer than this.
        let length = file.metadata()?.len().min(super::MAX_FILE);
        io::copy(&mut io::repeat(0).take(length), &mut file)?;
        file.sync_all()
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn force_directory(&mut self, directory: &Path) -> io::Result<()> {
        File::open(directory)?.sync_all()
    }
}
