//! The command line of load.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};

use crate::request::Bulk;

/// A command with its settings.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Answers clients until standard input closes.
    Serve(End),
    /// Sends data to a server.
    Bulk(End, Bulk),
    /// Opens this many connections one after the other, and requests one byte on each.
    FirstByte(End, u32),
}

/// The settings of one end: the server's address, its certificate, and the congestion control.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// Address and UDP port to listen on, or to connect to.
    pub(crate) address: SocketAddr,
    /// File to which the server writes its certificate (DER), and from which the client reads the one that it trusts.
    pub(crate) certificate: PathBuf,
    /// Congestion control of the data that this end sends.
    pub(crate) congestion: Congestion,
}

/// Congestion control of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Congestion {
    /// RFC 9438.
    Cubic,
    /// RFC 9002, section 7.
    NewReno,
    /// The first version of BBR; quinn calls it experimental.
    Bbr,
}

impl Congestion {
    /// All variants with their names.
    const NAMES: [(&'static str, Self); 3] = [("cubic", Self::Cubic), ("reno", Self::NewReno), ("bbr", Self::Bbr)];

    /// Returns the variant with this name.
    fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, congestion)| *congestion)
    }

    /// Returns the name, as in the flag.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, congestion)| *congestion == self).map_or("unknown", |(name, _)| name)
    }

    /// Returns the factory of quinn's controllers.
    pub(crate) fn factory(self) -> Arc<dyn ControllerFactory + Send + Sync> {
        match self {
            Self::Cubic => Arc::new(CubicConfig::default()),
            Self::NewReno => Arc::new(NewRenoConfig::default()),
            Self::Bbr => Arc::new(BbrConfig::default()),
        }
    }
}

/// A usage error, with its cause.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Usage(String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}; call it as one of: load serve --listen ADDRESS:PORT --certificate FILE \
             | load bulk --connect ADDRESS:PORT --certificate FILE --milliseconds N [--omit-milliseconds N] \
             | load first-byte --connect ADDRESS:PORT --certificate FILE --tries N; each with [--congestion cubic|reno|bbr]",
            self.0
        )
    }
}

impl std::error::Error for Usage {}

/// The flags read so far.
#[derive(Default)]
struct Flags {
    address: Option<SocketAddr>,
    certificate: Option<PathBuf>,
    congestion: Option<Congestion>,
    milliseconds: Option<u32>,
    omit: Option<u32>,
    tries: Option<u32>,
}

impl Flags {
    /// Stores one flag of `verb` with its value.
    fn take(&mut self, verb: &str, flag: &str, value: &str) -> Result<(), Usage> {
        let bad = || Usage(format!("invalid value for {flag}: {value}"));
        let number = || value.parse().map_err(|_| bad());
        match (verb, flag) {
            ("serve", "--listen") | ("bulk" | "first-byte", "--connect") => {
                self.address = Some(value.parse().map_err(|_| bad())?);
            }
            (_, "--certificate") => self.certificate = Some(value.into()),
            (_, "--congestion") => self.congestion = Some(Congestion::named(value).ok_or_else(bad)?),
            ("bulk", "--milliseconds") => self.milliseconds = Some(number()?),
            ("bulk", "--omit-milliseconds") => self.omit = Some(number()?),
            ("first-byte", "--tries") => self.tries = Some(number()?),
            _ => return Err(Usage(format!("{verb} has no flag {flag}"))),
        }
        Ok(())
    }

    /// Returns the command, or an error if a flag is missing.
    fn command(self, verb: &str) -> Result<Command, Usage> {
        let lacks = |flag: &str| Usage(format!("{flag} is missing"));
        let end = End {
            address: self.address.ok_or_else(|| lacks(if verb == "serve" { "--listen" } else { "--connect" }))?,
            certificate: self.certificate.ok_or_else(|| lacks("--certificate"))?,
            congestion: self.congestion.unwrap_or(Congestion::Cubic),
        };
        match verb {
            "serve" => Ok(Command::Serve(end)),
            "bulk" => {
                let counted = self.milliseconds.ok_or_else(|| lacks("--milliseconds"))?;
                Ok(Command::Bulk(end, Bulk { omitted_ms: self.omit.unwrap_or(0), counted_ms: counted }))
            }
            _ => Ok(Command::FirstByte(end, self.tries.ok_or_else(|| lacks("--tries"))?)),
        }
    }
}

/// Parses a verb, then flags in any order, each with its value as the next word. If a flag is repeated, its last value is used.
pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Command, Usage> {
    let verb = words.next().ok_or_else(|| Usage("a command is missing".into()))?;
    if !["serve", "bulk", "first-byte"].contains(&verb.as_str()) {
        return Err(Usage(format!("unknown command {verb}")));
    }
    let mut said = Flags::default();
    while let Some(flag) = words.next() {
        let value = words.next().ok_or_else(|| Usage(format!("{flag} has no value")))?;
        said.take(&verb, &flag, &value)?;
    }
    said.command(&verb)
}
