//! The command line of floor.

use std::fmt;
use std::net::SocketAddrV4;

use crate::cipher::FloorCipher;

/// The parsed command line.
pub(crate) struct FloorArguments {
    /// Name of the TUN device that floor creates. The caller sets its address and MTU and brings it up.
    pub(crate) tun: String,
    /// UDP port to listen on.
    pub(crate) port: u16,
    /// Endpoint of the other end.
    pub(crate) peer: SocketAddrV4,
    /// The cipher, which must be the same at both ends.
    pub(crate) cipher: FloorCipher,
}

/// A usage error.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UsageError(String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; usage: floor --tun NAME --listen PORT --peer IPV4:PORT --cipher aes|none", self.0)
    }
}

impl std::error::Error for UsageError {}

impl FloorArguments {
    /// Parses flags in any order, each with its value as the next word.
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self, UsageError> {
        let (mut tun, mut port, mut peer, mut cipher, mut words) = (None, None, None, None, words);
        while let Some(flag) = words.next() {
            let value = words.next().ok_or_else(|| UsageError(format!("{flag} has no value")))?;
            let bad = || UsageError(format!("invalid value for {flag}: {value}"));
            match flag.as_str() {
                "--tun" => tun = Some(value),
                "--listen" => port = Some(value.parse().map_err(|_| bad())?),
                "--peer" => peer = Some(value.parse().map_err(|_| bad())?),
                "--cipher" => cipher = Some(FloorCipher::named(&value).ok_or_else(bad)?),
                _ => return Err(UsageError(format!("unknown flag {flag}"))),
            }
        }
        let lacks = |flag: &str| UsageError(format!("{flag} is missing"));
        Ok(Self {
            tun: tun.ok_or_else(|| lacks("--tun"))?,
            port: port.ok_or_else(|| lacks("--listen"))?,
            peer: peer.ok_or_else(|| lacks("--peer"))?,
            cipher: cipher.ok_or_else(|| lacks("--cipher"))?,
        })
    }
}
