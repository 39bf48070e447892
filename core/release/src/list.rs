//! The list of a release, as text:
//!
//! ```text
//! taut-release 1
//! version 0.3.0
//! made 1798502400
//! program taut x86-64 2471936 ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad taut_0.3.0_x86-64
//! ```
//! A line with another first word is of a later version, and is ignored. A list with another first line is not read.

use std::error::Error;
use std::fmt;

use crate::key::{ReleaseKey, SIGNATURE};
use crate::version::Version;

/// The first line of each list. It is covered by the signature, so a signed file of another kind is not taken for a list.
const FIRST: &str = "taut-release 1";
/// Longest list in bytes, 64 KiB: three programs for five processors have 3 KiB.
pub const MAX_LIST: usize = 64 << 10;
/// Most programs in a list: three programs for twenty processors.
const MAX_PROGRAMS: usize = 64;
/// Largest program in bytes, 256 MiB: a coordinator has 20 MiB.
const LARGEST: u64 = 256 << 20;
/// Longest word in bytes: name, processor or file.
const LONGEST_WORD: usize = 128;

/// A program of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The program, such as `taut`.
    pub name: String,
    /// The processor, such as `x86-64`.
    pub architecture: String,
    /// Length in bytes.
    pub bytes: u64,
    /// SHA-256 of its content.
    pub sha256: [u8; 32],
    /// The name of its file, beside the list.
    pub file: String,
}

/// A release: a list whose signature is right, except in the hands of a fuzzer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The version of everything in it.
    pub version: Version,
    /// The time at which its sources were committed, in seconds since 1970.
    pub made: u64,
    /// Its programs.
    pub programs: Vec<Program>,
}

impl Release {
    /// Reads a list with a signature by `key`.
    ///
    /// # Errors
    /// If the signature is wrong, or the list is not as it has to be.
    pub fn open(list: &[u8], signature: &[u8], key: &ReleaseKey) -> Result<Self, BadRelease> {
        // Before anything of the list is looked at.
        if signature.len() != SIGNATURE || !key.has_signed(list, signature) {
            return Err(BadRelease::Signature);
        }
        Self::parse(list)
    }

    /// Reads a list without a signature: what [`Self::open`] does behind it, and what a fuzzer searches.
    ///
    /// # Errors
    /// If the list is not as it has to be.
    pub fn parse(list: &[u8]) -> Result<Self, BadRelease> {
        let text = str::from_utf8(list).ok().filter(|text| text.len() <= MAX_LIST && text.ends_with('\n'));
        let mut lines = text.ok_or(BadRelease::Form)?.lines();
        if lines.next() != Some(FIRST) {
            return Err(BadRelease::Form);
        }
        let (mut version, mut made, mut programs) = (None, None, Vec::new());
        for line in lines {
            let mut words = line.split(' ');
            match words.next() {
                Some("version") if version.is_none() => version = Some(parse(words.next())?),
                Some("made") if made.is_none() => made = Some(parse(words.next())?),
                Some("version" | "made") => return Err(BadRelease::Form),
                Some("program") if programs.len() < MAX_PROGRAMS => programs.push(program(&mut words)?),
                Some("program") => return Err(BadRelease::Form),
                _ => continue,
            }
            if words.next().is_some() {
                return Err(BadRelease::Form);
            }
        }
        let (version, made) = version.zip(made).ok_or(BadRelease::Form)?;
        Ok(Self { version, made, programs })
    }

    /// Returns the program of this name for a processor.
    pub fn program(&self, name: &str, architecture: &str) -> Option<&Program> {
        self.programs.iter().find(|program| program.name == name && program.architecture == architecture)
    }
}

fn parse<T: std::str::FromStr>(word: Option<&str>) -> Result<T, BadRelease> {
    word.and_then(|word| word.parse().ok()).ok_or(BadRelease::Form)
}

fn program<'a>(words: &mut impl Iterator<Item = &'a str>) -> Result<Program, BadRelease> {
    let mut next = || words.next().ok_or(BadRelease::Form);
    let (name, architecture) = (plain(next()?)?, plain(next()?)?);
    let bytes: u64 = parse(Some(next()?))?;
    let (sha256, file) = (hex(next()?).ok_or(BadRelease::Form)?, plain(next()?)?);
    if bytes == 0 || bytes > LARGEST {
        return Err(BadRelease::Form);
    }
    Ok(Program { name, architecture, bytes, sha256, file })
}

/// Returns a word that is a file's name in one folder everywhere, and safe in a URL and at a terminal.
fn plain(word: &str) -> Result<String, BadRelease> {
    let is_plain = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-+~".contains(&byte));
    let is_named = !word.is_empty() && word.len() <= LONGEST_WORD && !word.starts_with(['.', '-']);
    (is_plain && is_named).then(|| String::from(word)).ok_or(BadRelease::Form)
}

/// Returns the 32 bytes of 64 digits.
fn hex(text: &str) -> Option<[u8; 32]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let mut bytes = [0; 32];
    if pairs.len() != bytes.len() || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

/// The reason why a list is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadRelease {
    /// The signature over it is not one of the key.
    Signature,
    /// It is signed, and not a list of this form.
    Form,
}

impl fmt::Display for BadRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Signature => "its signature is not one of the key",
            Self::Form => "it is not a list of a release, or one of a later form",
        })
    }
}

impl Error for BadRelease {}

#[cfg(test)]
mod tests;
