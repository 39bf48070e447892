//! The two UDP sockets towards one gateway.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;

use taut_event::{Interest, Poller};
use taut_portmap::{Door, Gateway, pcp, ssdp};

/// Names of what the poller watches.
pub(crate) const PCP: u64 = 1;
pub(crate) const SSDP: u64 = 2;

/// More than the longest message that is looked at, so that a longer one is seen to be too long.
const BUFFER: usize = ssdp::MAX_LEN + 1;

/// How far a search goes (UPnP Device Architecture, section 1.3.2): two networks.
const SEARCH_TTL: u32 = 2;

pub(crate) struct Sockets {
    pcp: UdpSocket,
    ssdp: UdpSocket,
}

/// What came in.
pub(crate) enum Heard {
    /// A datagram, from there.
    Datagram(SocketAddr, Vec<u8>),
    /// The other end says that nobody listens.
    Closed,
    /// Nothing more for now.
    Nothing,
}

impl Sockets {
    /// Both, bound to our address and watched.
    pub(crate) fn open(gateway: Gateway, poller: &Poller) -> io::Result<Self> {
        let pcp = UdpSocket::bind((gateway.own, 0))?;
        pcp.connect((gateway.address, pcp::PORT))?;
        let ssdp = UdpSocket::bind((gateway.own, 0))?;
        ssdp.set_multicast_ttl_v4(SEARCH_TTL)?;
        for (socket, name) in [(&pcp, PCP), (&ssdp, SSDP)] {
            socket.set_nonblocking(true)?;
            poller.add(socket.as_fd(), name, Interest::READ)?;
        }
        Ok(Self { pcp, ssdp })
    }

    /// Sends. False when the gateway says that nobody listens; what cannot be sent otherwise is lost, as datagrams may be.
    pub(crate) fn send(&self, door: Door, to: SocketAddrV4, bytes: &[u8]) -> bool {
        let sent = match door {
            Door::Pcp => self.pcp.send(bytes),
            Door::Ssdp => self.ssdp.send_to(bytes, to),
        };
        !matches!(sent, Err(error) if door == Door::Pcp && error.kind() == ErrorKind::ConnectionRefused)
    }

    pub(crate) fn receive(&self, door: Door) -> Heard {
        let socket = if door == Door::Pcp { &self.pcp } else { &self.ssdp };
        let mut buffer = [0; BUFFER];
        loop {
            match socket.recv_from(&mut buffer) {
                Ok((length, from)) => return Heard::Datagram(from, buffer[..length].to_vec()),
                Err(error) if error.kind() == ErrorKind::ConnectionRefused && door == Door::Pcp => {
                    return Heard::Closed;
                }
                // The unreachable place was one of a search: the next datagram may be an answer.
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::Interrupted) => {}
                Err(_) => return Heard::Nothing,
            }
        }
    }

    /// No longer watched; closing them would do, but says nothing.
    pub(crate) fn close(self, poller: &Poller) {
        poller.remove(self.pcp.as_fd());
        poller.remove(self.ssdp.as_fd());
    }
}
