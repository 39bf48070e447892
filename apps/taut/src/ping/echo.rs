//! Echo requests of ICMP (RFC 792) and ICMPv6 (RFC 4443) through a raw or ping socket.

use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use taut_wire::icmp::{Echo, EchoKind, HEADER};

use crate::fault::Fault;

/// Bytes after the echo header, 56, as with ping(8).
const PAYLOAD: usize = 56;
/// Bytes of the largest possible reply, including an IPv4 header with options.
const MAX_ANSWER: usize = 60 + HEADER + PAYLOAD;

/// The hint for a host whose kernel refuses raw and unprivileged ICMP sockets, as it often does for root in a container.
const NO_SOCKET: &str = "try again as root; in a container give it the capability NET_RAW, or the setting net.ipv4.ping_group_range=\"0 0\"";

/// A socket that sends echo requests to one address and receives only from it.
pub(super) struct Echoes {
    socket: Socket,
    address: IpAddr,
    ident: u16,
    /// The first bytes of the payload. They distinguish the replies to this program from replies to other programs, because the kernel replaces `ident` on a ping
    /// socket.
    cookie: [u8; 8],
}

impl Echoes {
    /// Opens a raw socket, or a ping socket if raw ones are not permitted (`net.ipv4.ping_group_range`).
    pub(super) fn open(address: IpAddr) -> Result<Self, Fault> {
        let (domain, protocol) = match address {
            IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4),
            IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6),
        };
        let socket = Socket::new(domain, Type::RAW, Some(protocol))
            .or_else(|_| Socket::new(domain, Type::DGRAM, Some(protocol)))
            .map_err(|error| Fault::failed(format!("echo requests cannot be sent: {error}"), NO_SOCKET))?;
        // A connected socket receives only from this address.
        socket
            .connect(&SockAddr::from(SocketAddr::new(address, 0)))
            .map_err(|error| Fault::failed(format!("there is no route to {address}: {error}"), "see `taut status`"))?;
        let moment = taut_event::boot_time().as_nanos() as u64 ^ u64::from(std::process::id()) << 32;
        let ident = u16::try_from(std::process::id() & 0xffff).unwrap_or(0);
        Ok(Self { socket, address, ident, cookie: moment.to_be_bytes() })
    }

    /// Sends a request and waits for its reply. Returns the round-trip time, or `None` if no reply came in time.
    pub(super) fn exchange(&mut self, sequence: u16, timeout: Duration) -> io::Result<Option<Duration>> {
        let mut payload = [0; PAYLOAD];
        payload[..8].copy_from_slice(&self.cookie);
        let request = Echo { kind: EchoKind::Request, ident: self.ident, sequence, payload: &payload };
        let mut message = [0; HEADER + PAYLOAD];
        // The kernel fills in the checksum of ICMPv6, which covers the source address that it chooses (RFC 3542 section 3.1).
        let length =
            request.write_message(unspecified(self.address), self.address, &mut message).map_err(io::Error::other)?;
        let begin = Instant::now();
        self.socket.send(&message[..length])?;
        loop {
            let left = timeout.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            self.socket.set_read_timeout(Some(left))?;
            let mut answer = [0; MAX_ANSWER];
            match (&self.socket).read(&mut answer) {
                Ok(length) if self.is_reply(&answer[..length], sequence) => return Ok(Some(begin.elapsed())),
                Ok(_) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Ok(None);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns true if this is the reply to request `sequence`. The kernel has checked the packet; a raw IPv4 socket delivers it with the IP header.
    fn is_reply(&self, answer: &[u8], sequence: u16) -> bool {
        let message = match (self.address, answer.first()) {
            (IpAddr::V4(_), Some(first)) if first >> 4 == 4 => {
                answer.get(usize::from(first & 15) * 4..).unwrap_or_default()
            }
            _ => answer,
        };
        let reply_type = if self.address.is_ipv4() { 0 } else { 129 };
        let [kind, 0, _, _, _, _, high, low, payload @ ..] = message else { return false };
        *kind == reply_type && [*high, *low] == sequence.to_be_bytes() && payload.starts_with(&self.cookie)
    }
}

fn unspecified(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_replies_over_ipv4_and_ipv6() {
        for address in ["127.0.0.1", "::1"] {
            match Echoes::open(address.parse().unwrap()) {
                Ok(mut echoes) => {
                    for sequence in 1..=3 {
                        assert!(echoes.exchange(sequence, Duration::from_secs(20)).unwrap().is_some(), "{address}");
                    }
                }
                Err(_) => println!("skipped: {address} needs root, or a host with this IP version"),
            }
        }
    }

    #[test]
    fn only_the_reply_to_this_request_counts() {
        let Ok(echoes) = Echoes::open("127.0.0.1".parse().unwrap()) else {
            println!("skipped: needs root");
            return;
        };
        let message = |kind: u8, sequence: u8, cookie: &[u8]| [&[kind, 0, 0, 0, 0, 0, 0, sequence], cookie].concat();
        let header = [[0x46].as_slice(), &[0; 23]].concat();
        assert!(echoes.is_reply(&message(0, 7, &echoes.cookie), 7));
        assert!(echoes.is_reply(&[header, message(0, 7, &echoes.cookie)].concat(), 7), "behind a header with options");
        assert!(!echoes.is_reply(&message(8, 7, &echoes.cookie), 7), "the request itself, seen on loopback");
        assert!(!echoes.is_reply(&message(0, 6, &echoes.cookie), 7), "the reply to an older request");
        assert!(!echoes.is_reply(&message(0, 7, &[0; 8]), 7), "the reply to another program");
        assert!(!echoes.is_reply(&[0x4f], 7) && !echoes.is_reply(&[], 7), "cut");
    }
}
