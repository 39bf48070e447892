//! Sockets for the test of the NAT's filter: which datagrams does the NAT let in to a socket that sent to only one port of a relay? A lane's socket sends to both
//! ports, and an unsolicited datagram could cost it its outer port ([`taut_path::NatReport`], fault D18).
//!
//! The sockets exist for two seconds in each survey of the NAT. They are read in each turn of the daemon, and the daemon turns when the survey ends.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use taut_base::{Entropy, SOCKET_MARK, Time};
use taut_node::{Clocks, Datagram, Node};
use taut_wire::stun::MAX_LEN;

/// Time for which the sockets stay open after the first request, 2 s: longer than a survey.
const OPEN: Duration = Duration::from_secs(2);

/// Maximum number of datagrams that are read from one socket per turn, 16: a survey has four answers, and a flood from other senders costs no more than this.
const READ: usize = 16;

/// One socket for each address family while it is needed.
#[derive(Default)]
pub(crate) struct NatTestSockets {
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
    until: Option<Time>,
}

impl NatTestSockets {
    /// Reads the received datagrams, and closes the sockets when their time is over.
    pub(crate) fn read(&mut self, node: &mut Node<impl Entropy>, clocks: Clocks) {
        for socket in self.v4.iter().chain(&self.v6) {
            let mut bytes = [0; MAX_LEN];
            for _ in 0..READ {
                let Ok((length, source)) = socket.recv_from(&mut bytes) else { break };
                node.handle_nat_test(source, &bytes[..length], clocks);
            }
        }
        if self.until.is_some_and(|until| clocks.now >= until) {
            *self = Self::default();
        }
    }

    /// Sends a request. If the host lacks the address family or a free descriptor, the request is not sent, and the NAT's filter stays unknown.
    pub(crate) fn send(&mut self, to: SocketAddr, request: &Datagram, now: Time) {
        self.until.get_or_insert(now + OPEN);
        let (socket, any) = match to {
            SocketAddr::V4(_) => (&mut self.v4, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))),
            SocketAddr::V6(_) => (&mut self.v6, SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))),
        };
        if socket.is_none() {
            *socket = UdpSocket::bind(any).ok().filter(|socket| socket.set_nonblocking(true).is_ok());
            let _ = socket.as_ref().map(|socket| taut_event::set_mark(socket, SOCKET_MARK));
        }
        if let Some(socket) = socket {
            // A request that cannot be sent is lost: each request is sent twice, and again with the next survey.
            let _ = socket.send_to(request.as_bytes(), to);
        }
    }

    /// Returns the time at which [`Self::read`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.until
    }
}
