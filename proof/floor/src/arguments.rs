//! What the program is told.

use std::fmt;
use std::net::SocketAddrV4;

use crate::cipher::Cipher;

/// The words behind the program's name, read.
pub(crate) struct Arguments {
    /// Name of the TUN device to make. Its address, its MTU and bringing it up are the caller's.
    pub(crate) tun: String,
    /// UDP port to listen on.
    pub(crate) port: u16,
    /// The other end.
    pub(crate) peer: SocketAddrV4,
    /// What seals the packets; both ends must say the same.
    pub(crate) cipher: Cipher,
}

/// The words are not those that [`Usage`] shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Usage(String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; call it as: floor --tun NAME --listen PORT --peer IPV4:PORT --cipher aes|none", self.0)
    }
}

impl std::error::Error for Usage {}

impl Arguments {
    /// Each flag once, in any order, with its value as the next word.
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self, Usage> {
        let (mut tun, mut port, mut peer, mut cipher, mut words) = (None, None, None, None, words);
        while let Some(flag) = words.next() {
            let value = words.next().ok_or_else(|| Usage(format!("{flag} has no value")))?;
            let bad = || Usage(format!("{value} is no value for {flag}"));
            match flag.as_str() {
                "--tun" => tun = Some(value),
                "--listen" => port = Some(value.parse().map_err(|_| bad())?),
                "--peer" => peer = Some(value.parse().map_err(|_| bad())?),
                "--cipher" => cipher = Some(Cipher::named(&value).ok_or_else(bad)?),
                _ => return Err(Usage(format!("{flag} is not known"))),
            }
        }
        let lacks = |flag: &str| Usage(format!("{flag} is missing"));
        Ok(Self {
            tun: tun.ok_or_else(|| lacks("--tun"))?,
            port: port.ok_or_else(|| lacks("--listen"))?,
            peer: peer.ok_or_else(|| lacks("--peer"))?,
            cipher: cipher.ok_or_else(|| lacks("--cipher"))?,
        })
    }
}
