//! Facts about this process.

use std::os::unix::fs::MetadataExt;
use std::{fs, io};

/// Returns the number of the user that this process acts for: the kernel gives the process's directory in /proc to that user (man 5 proc).
///
/// # Errors
/// If /proc is not mounted.
pub(crate) fn effective_uid() -> io::Result<u32> {
    Ok(fs::metadata("/proc/self")?.uid())
}
