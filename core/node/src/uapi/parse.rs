//! Parsing of requests.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::str::FromStr;
use std::time::Duration;

use taut_base::{Prefix, PresharedKey, PrivateKey, PublicKey};
use zeroize::Zeroizing;

use super::{Errno, MAX_REQUEST, PeerChange, Request, Set};

/// The received bytes of a connection. They contain secrets; no copy of them is left in memory.
#[derive(Default)]
pub struct RequestBuffer {
    bytes: Zeroizing<Vec<u8>>,
    /// Position before which no request ends.
    searched: usize,
}

impl RequestBuffer {
    /// Appends received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let length = self.bytes.len() + bytes.len();
        if length > self.bytes.capacity() {
            // A vector that reallocates does not wipe its former memory.
            let mut larger = Zeroizing::new(Vec::with_capacity(length.next_power_of_two()));
            larger.extend_from_slice(&self.bytes);
            self.bytes = larger;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Removes and parses the next complete request. Returns `None` until its empty line has been received.
    pub fn request(&mut self) -> Option<Result<Request, Errno>> {
        let end = self.bytes[self.searched..].windows(2).position(|pair| pair == b"\n\n");
        let Some(end) = end.map(|place| self.searched + place + 2) else {
            self.searched = self.bytes.len().saturating_sub(1);
            return None;
        };
        let request = Request::parse(&self.bytes[..end]);
        let rest = Zeroizing::new(self.bytes[end..].to_vec());
        (self.bytes, self.searched) = (rest, 0);
        Some(request)
    }

    /// Returns true if the buffer exceeds [`MAX_REQUEST`]: the connection has to be closed.
    pub fn is_too_long(&self) -> bool {
        self.bytes.len() > MAX_REQUEST
    }
}

impl Request {
    /// Parses a request, with or without the empty line at its end.
    ///
    /// # Errors
    /// [`Errno::Protocol`] for a line without `=`, [`Errno::Invalid`] for any other deviation from the format.
    pub fn parse(text: &[u8]) -> Result<Self, Errno> {
        let text = std::str::from_utf8(text).map_err(|_| Errno::Invalid)?;
        let text = text.strip_suffix("\n\n").or_else(|| text.strip_suffix('\n')).unwrap_or(text);
        let mut lines = text.split('\n');
        match lines.next() {
            Some("get=1") => lines.next().map_or(Ok(Self::Get), |_| Err(Errno::Invalid)),
            Some("set=1") => {
                let mut set = Set::default();
                for line in lines {
                    let (key, value) = line.split_once('=').ok_or(Errno::Protocol)?;
                    set.take(key, value)?;
                }
                Ok(Self::Set(Box::new(set)))
            }
            _ => Err(Errno::Invalid),
        }
    }
}

impl Set {
    /// Applies one line. The lines before the first `public_key` concern the interface.
    fn take(&mut self, key: &str, value: &str) -> Result<(), Errno> {
        if key == "public_key" {
            self.peers.push(PeerChange::new(PublicKey(*hex(value)?)));
            return Ok(());
        }
        if let Some(peer) = self.peers.last_mut() {
            return peer.take(key, value);
        }
        match key {
            "private_key" => {
                let bytes = hex(value)?;
                self.private_key = Some((*bytes != [0; 32]).then(|| PrivateKey::from_bytes(*bytes)));
            }
            "listen_port" => self.listen_port = Some(decimal(value)?),
            "fwmark" => self.fwmark = Some(decimal(value)?),
            "replace_peers" => self.replace_peers = yes(value)?,
            _ => return Err(Errno::Invalid),
        }
        Ok(())
    }
}

impl PeerChange {
    fn take(&mut self, key: &str, value: &str) -> Result<(), Errno> {
        match key {
            "remove" => self.remove = yes(value)?,
            "update_only" => self.update_only = yes(value)?,
            "preshared_key" => self.preshared = Some(PresharedKey::from_bytes(*hex(value)?)),
            "endpoint" => {
                let (address, zone) = endpoint(value)?;
                (self.endpoint, self.zone) = (Some(address), zone);
            }
            "persistent_keepalive_interval" => {
                let seconds: u16 = decimal(value)?;
                self.keepalive = Some((seconds > 0).then(|| Duration::from_secs(seconds.into())));
            }
            "replace_allowed_ips" => {
                // Allowed IPs that were listed before this line are replaced, too.
                self.replace_allowed = yes(value)?;
                self.allowed.clear();
            }
            "allowed_ip" => self.allowed.push(match value.strip_prefix('-') {
                Some(gone) => (prefix(gone)?, false),
                None => (prefix(value)?, true),
            }),
            "protocol_version" if value == "1" => {}
            _ => return Err(Errno::Invalid),
        }
        Ok(())
    }
}

/// Parses a switch, whose only valid value is `true`.
fn yes(value: &str) -> Result<bool, Errno> {
    if value == "true" { Ok(true) } else { Err(Errno::Invalid) }
}

/// Parses a number of digits only: the standard library would also accept a sign.
fn decimal<T: FromStr>(value: &str) -> Result<T, Errno> {
    let plain = value.bytes().all(|byte| byte.is_ascii_digit());
    value.parse().ok().filter(|_| plain).ok_or(Errno::Invalid)
}

/// Parses 64 hexadecimal digits, in upper or lower case.
fn hex(value: &str) -> Result<Zeroizing<[u8; 32]>, Errno> {
    let digit =
        |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok()).ok_or(Errno::Invalid);
    let mut bytes = Zeroizing::new([0; 32]);
    if value.len() != 2 * bytes.len() {
        return Err(Errno::Invalid);
    }
    for (byte, pair) in bytes.iter_mut().zip(value.as_bytes().chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Ok(bytes)
}

/// Parses an address and port that packets can be sent to. A user may also configure loopback and link-local addresses. An IPv6 address may be followed by `%` and
/// the number or the name of an interface (RFC 4007 section 11).
fn endpoint(value: &str) -> Result<(SocketAddr, Option<String>), Errno> {
    let (endpoint, zone) = match value.parse() {
        Ok(endpoint) => (endpoint, None),
        Err(_) => with_zone(value).ok_or(Errno::Invalid)?,
    };
    let nowhere = endpoint.ip().is_unspecified() || endpoint.ip().is_multicast() || endpoint.port() == 0;
    if nowhere { Err(Errno::Invalid) } else { Ok((endpoint, zone)) }
}

/// Parses `[ADDRESS%NAME]:PORT`.
fn with_zone(value: &str) -> Option<(SocketAddr, Option<String>)> {
    let (address, rest) = value.strip_prefix('[')?.split_once('%')?;
    let (name, port) = rest.rsplit_once("]:")?;
    // The kernel's rules for names of interfaces (`dev_valid_name`).
    let valid = (1..16).contains(&name.len()) && !name.contains(|c: char| c == '/' || c == ':' || c.is_whitespace());
    if !valid || name == "." || name == ".." {
        return None;
    }
    let endpoint = SocketAddrV6::new(address.parse().ok()?, decimal(port).ok()?, 0, 0);
    Some((endpoint.into(), Some(String::from(name))))
}

/// Parses `ADDRESS/LENGTH`, or an address without a length, which stands for itself. Host bits are cleared.
fn prefix(value: &str) -> Result<Prefix, Errno> {
    let (address, length) = value.split_once('/').map_or((value, None), |(address, length)| (address, Some(length)));
    let address: IpAddr = address.parse().map_err(|_| Errno::Invalid)?;
    match length {
        Some(length) => Prefix::new(address, decimal(length)?).map_err(|_| Errno::Invalid),
        None => Ok(Prefix::host(address)),
    }
}
