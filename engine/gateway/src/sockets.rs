//! The two UDP sockets towards one gateway.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;

use taut_base::SOCKET_MARK;
use taut_event::{Interest, Poller, set_mark};
use taut_portmap::{Gateway, GatewaySocket, pcp, ssdp};

/// The poller's tokens of the two sockets.
pub(crate) const PCP: u64 = 1;
pub(crate) const SSDP: u64 = 2;

/// Buffer size, more than the longest message that is accepted, so that a longer one is recognized as too long.
const BUFFER: usize = ssdp::MAX_LEN + 1;

/// Time to live of a search, 2 networks (UPnP Device Architecture, section 1.3.2).
const SEARCH_TTL: u32 = 2;

pub(crate) struct Sockets {
    pcp: UdpSocket,
    ssdp: UdpSocket,
}

/// The result of reading a socket.
pub(crate) enum Incoming {
    /// A datagram and its source.
    Datagram(SocketAddr, Vec<u8>),
    /// The gateway's port is closed.
    Closed,
    /// No datagram waits.
    Nothing,
}

impl Sockets {
    /// Opens both sockets, bound to this host's address, and adds them to the poller.
    pub(crate) fn open(gateway: Gateway, poller: &Poller) -> io::Result<Self> {
        let pcp = UdpSocket::bind((gateway.own, 0))?;
        let ssdp = UdpSocket::bind((gateway.own, 0))?;
        ssdp.set_multicast_ttl_v4(SEARCH_TTL)?;
        // The router is outside the overlay also while an exit node is in use.
        for socket in [&pcp, &ssdp] {
            let _ = set_mark(socket, SOCKET_MARK);
        }
        // The route is chosen when it connects, hence after the mark.
        pcp.connect((gateway.address, pcp::PORT))?;
        for (socket, name) in [(&pcp, PCP), (&ssdp, SSDP)] {
            socket.set_nonblocking(true)?;
            poller.add(socket.as_fd(), name, Interest::READ)?;
        }
        Ok(Self { pcp, ssdp })
    }

    /// Sends a datagram. Returns false if the gateway's port is closed; other failures count as loss.
    pub(crate) fn send(&self, socket: GatewaySocket, to: SocketAddrV4, bytes: &[u8]) -> bool {
        let sent = match socket {
            GatewaySocket::Pcp => self.pcp.send(bytes),
            GatewaySocket::Ssdp => self.ssdp.send_to(bytes, to),
        };
        !matches!(sent, Err(error) if socket == GatewaySocket::Pcp && error.kind() == ErrorKind::ConnectionRefused)
    }

    pub(crate) fn receive(&self, socket: GatewaySocket) -> Incoming {
        let is_pcp = socket == GatewaySocket::Pcp;
        let socket = if is_pcp { &self.pcp } else { &self.ssdp };
        let mut buffer = [0; BUFFER];
        loop {
            match socket.recv_from(&mut buffer) {
                Ok((length, from)) => return Incoming::Datagram(from, buffer[..length].to_vec()),
                Err(error) if error.kind() == ErrorKind::ConnectionRefused && is_pcp => {
                    return Incoming::Closed;
                }
                // The unreachable port belonged to a search: the next datagram may be a reply.
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::Interrupted) => {}
                Err(_) => return Incoming::Nothing,
            }
        }
    }

    /// Removes the sockets from the poller, which closing them would do, too, and closes them.
    pub(crate) fn close(self, poller: &Poller) {
        poller.remove(self.pcp.as_fd());
        poller.remove(self.ssdp.as_fd());
    }
}
