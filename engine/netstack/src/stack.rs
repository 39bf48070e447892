//! The stack: this node's overlay addresses, and sockets behind them.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::{tcp, udp};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpCidr, IpEndpoint, TcpOption, TcpPacket};
use taut_proxy::EPHEMERAL;
use taut_tun::Tun;
use taut_wire::ip::{self, Packet};

use crate::device::Device;

/// Buffer of a socket for each direction, 256 KiB: one stream of 100 Mbit/s over 20 ms. The memory is touched only as far as it is used.
const BUFFER: usize = 256 * 1024;
/// Interval of the probes of an idle connection, 60 s, and time without any answer after which it is reset, 3 minutes: a peer that vanished holds nothing for long.
const KEEP_ALIVE: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(60);
const DEAD_AFTER: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(180);
/// Messages and bytes of the socket for names, for each direction.
const NAME_MESSAGES: usize = 32;
const NAME_BYTES: usize = 32 * 1024;
/// Smallest segment size of a peer, 256 bytes: hosts say 536 and more (RFC 9293, section 3.7.1). The stack cannot send to a peer whose options leave no room for a byte.
const LEAST_SEGMENT: u16 = 256;
/// The shortest wait, 1 ms. All that can be sent has been sent before, and the stack says "now" also for a connection that waits for its program (smoltcp's `poll_at` does
/// not look at `pause_synack`): a peer could keep a core busy by it.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
/// Packets of one turn, 128: sockets of this host get their turn in between.
const PACKETS: usize = 128;
/// Limit on closed sockets that still wait for late packets of their peer (TIME-WAIT), 256.
const MOST_LATE: usize = 256;

/// The stack.
pub(crate) struct Stack {
    interface: Interface,
    sockets: SocketSet<'static>,
    device: Device,
    addresses: Vec<IpAddr>,
    /// Sockets without a connection that the stack still works on: they send a reset, or wait for late packets.
    closing: Vec<SocketHandle>,
    random: RandomState,
    drawn: u64,
}

/// A connection that a peer begins.
pub(crate) struct Incoming {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
}

impl Stack {
    /// Creates the stack of a node with these addresses.
    pub(crate) fn new(tun: Tun, mtu: u16, addresses: &[IpAddr], now: Instant) -> Self {
        let random = RandomState::new();
        let mut device = Device::new(tun, mtu);
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = random.hash_one(0_u8);
        let mut interface = Interface::new(config, &mut device, now);
        interface.update_ip_addrs(|own| {
            for address in addresses {
                // A node has one address of each family; what does not fit is not served.
                let _ = own.push(IpCidr::new((*address).into(), if address.is_ipv4() { 32 } else { 128 }));
            }
        });
        for address in addresses {
            // The lane knows who has which address, so any router will do.
            let _ = match address {
                IpAddr::V4(own) => interface.routes_mut().add_default_ipv4_route(*own).is_ok(),
                IpAddr::V6(own) => interface.routes_mut().add_default_ipv6_route(*own).is_ok(),
            };
        }
        let sockets = SocketSet::new(Vec::new());
        Self { interface, sockets, device, addresses: addresses.to_vec(), closing: Vec::new(), random, drawn: 0 }
    }

    /// Returns this node's addresses.
    pub(crate) fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Returns a random number.
    pub(crate) fn random(&mut self) -> u64 {
        self.drawn += 1;
        let mut hasher = self.random.build_hasher();
        hasher.write_u64(self.drawn);
        hasher.finish()
    }

    /// Begins a connection to a port of a peer. `None` if this node has no address of that family.
    pub(crate) fn connect(&mut self, to: SocketAddr) -> Option<SocketHandle> {
        let own = self.addresses.iter().copied().find(|own| own.is_ipv4() == to.is_ipv4())?;
        let port = self.free_port(to);
        let mut socket = tcp_socket();
        socket.connect(self.interface.context(), endpoint(to), endpoint(SocketAddr::new(own, port))).ok()?;
        Some(self.sockets.add(socket))
    }

    /// Returns a random port that no connection to this destination has.
    fn free_port(&mut self, to: SocketAddr) -> u16 {
        let used: BTreeSet<u16> = self
            .sockets
            .iter()
            .filter_map(|(_, socket)| match socket {
                smoltcp::socket::Socket::Tcp(socket) if socket.remote_endpoint() == Some(endpoint(to)) => {
                    socket.local_endpoint().map(|own| own.port)
                }
                _ => None,
            })
            .collect();
        let (first, count) = (*EPHEMERAL.start(), EPHEMERAL.len() as u64);
        loop {
            // There are fewer connections than ports.
            let port = first + u16::try_from(self.random() % count).unwrap_or_default();
            if !used.contains(&port) {
                return port;
            }
        }
    }

    /// Opens a socket for the connection that begins with the packet which [`Self::receive`] returned. The peer gets no answer before [`Self::accept`].
    pub(crate) fn listen(&mut self, incoming: &Incoming) -> Option<SocketHandle> {
        let mut socket = tcp_socket();
        socket.pause_synack(true);
        socket.listen(endpoint(incoming.to)).ok()?;
        Some(self.sockets.add(socket))
    }

    /// Lets the connection of a peer come about.
    pub(crate) fn accept(&mut self, handle: SocketHandle) {
        self.tcp(handle).pause_synack(false);
    }

    /// Returns true if a socket has the connection between these ends already.
    fn has_connection(&self, incoming: &Incoming) -> bool {
        self.sockets.iter().any(|(_, socket)| {
            matches!(socket, smoltcp::socket::Socket::Tcp(socket)
                if socket.remote_endpoint() == Some(endpoint(incoming.from)) && socket.local_endpoint() == Some(endpoint(incoming.to)))
        })
    }

    /// Opens the socket for questions about names.
    pub(crate) fn open_names(&mut self) -> Option<SocketHandle> {
        let buffer = || udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; NAME_MESSAGES], vec![0; NAME_BYTES]);
        let mut socket = udp::Socket::new(buffer(), buffer());
        let port = EPHEMERAL.start() + u16::try_from(self.random() % EPHEMERAL.len() as u64).unwrap_or_default();
        socket.bind(port).ok()?;
        Some(self.sockets.add(socket))
    }

    pub(crate) fn tcp(&mut self, handle: SocketHandle) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(handle)
    }

    pub(crate) fn udp(&mut self, handle: SocketHandle) -> &mut udp::Socket<'static> {
        self.sockets.get_mut(handle)
    }

    /// Resets a connection, and forgets the socket once the reset was sent.
    pub(crate) fn reset(&mut self, handle: SocketHandle) {
        self.tcp(handle).abort();
        self.closing.push(handle);
    }

    /// Forgets a socket whose connection has ended in both directions, after the time for late packets.
    pub(crate) fn finish(&mut self, handle: SocketHandle) {
        self.closing.push(handle);
        if self.closing.len() > MOST_LATE {
            let oldest = self.closing.remove(0);
            self.sockets.remove(oldest);
        }
    }

    /// Reads packets of the lane into the stack. `decide` is asked for each connection that a peer begins, and may [`Self::listen`] for it; the socket is returned to `taken`
    /// with whether it has the connection now.
    ///
    /// # Errors
    /// If the daemon has ended.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        mut decide: impl FnMut(&mut Self, &Incoming) -> Option<SocketHandle>,
    ) -> io::Result<()> {
        for _ in 0..PACKETS {
            if self.device.is_crowded() {
                break;
            }
            let packet = match self.device.read() {
                Ok(Some(packet)) => packet,
                Ok(None) => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            let seen = look(packet);
            let may_leave_listener = matches!(seen, Seen::Begins(_) | Seen::Resets);
            match seen {
                Seen::Unusable => {
                    self.device.drop_packet();
                    continue;
                }
                Seen::Begins(incoming) if !self.has_connection(&incoming) => {
                    decide(self, &incoming);
                }
                Seen::Begins(_) | Seen::Resets | Seen::Other => {}
            }
            self.interface.poll_ingress_single(now, &mut self.device, &mut self.sockets);
            if may_leave_listener {
                self.close_listeners();
            }
        }
        Ok(())
    }

    /// Closes sockets that listen: each was opened for one packet, which either began its connection or did not. A connection that is reset before it stands listens again, and
    /// would take another peer's.
    fn close_listeners(&mut self) {
        for (_, socket) in self.sockets.iter_mut() {
            if let smoltcp::socket::Socket::Tcp(socket) = socket
                && socket.is_listening()
            {
                socket.abort();
            }
        }
    }

    /// Sends what the sockets have to send, and forgets sockets that are done.
    pub(crate) fn send(&mut self, now: Instant) {
        self.device.flush();
        self.interface.poll(now, &mut self.device, &mut self.sockets);
        let sockets = &mut self.sockets;
        self.closing.retain(|handle| {
            let socket: &tcp::Socket<'_> = sockets.get(*handle);
            // A reset is sent by a closed socket that still knows its peer.
            let is_done = socket.state() == tcp::State::Closed && socket.remote_endpoint().is_none();
            if is_done {
                sockets.remove(*handle);
            }
            !is_done
        });
    }

    /// Returns true if packets wait for the lane.
    pub(crate) fn is_full(&mut self) -> bool {
        self.device.flush()
    }

    /// Returns the time until the stack has something to do; `None` if only a packet, or room at the lane, gives it work.
    pub(crate) fn delay(&mut self, now: Instant) -> Option<Duration> {
        if self.is_full() {
            return None;
        }
        let delay = self.interface.poll_delay(now, &self.sockets)?;
        Some(Duration::from_micros(delay.total_micros()).max(SHORTEST_WAIT))
    }
}

impl AsFd for Stack {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.tun().as_fd()
    }
}

fn tcp_socket() -> tcp::Socket<'static> {
    let buffer = || tcp::SocketBuffer::new(vec![0; BUFFER]);
    let mut socket = tcp::Socket::new(buffer(), buffer());
    socket.set_congestion_control(tcp::CongestionControl::Cubic);
    socket.set_keep_alive(Some(KEEP_ALIVE));
    socket.set_timeout(Some(DEAD_AFTER));
    // Programs decide how they cut their streams; a second algorithm that waits only adds delay.
    socket.set_nagle_enabled(false);
    socket
}

pub(crate) fn endpoint(address: SocketAddr) -> IpEndpoint {
    IpEndpoint::new(address.ip().into(), address.port())
}

/// What a packet is to the stack.
enum Seen {
    /// It begins a connection: a SYN without an ACK.
    Begins(Incoming),
    /// A connection with so small a segment size would cost more than it carries.
    Unusable,
    /// It resets a connection.
    Resets,
    /// Anything else.
    Other,
}

fn look(packet: &[u8]) -> Seen {
    let Ok(packet) = Packet::parse(packet) else { return Seen::Other };
    if packet.protocol() != ip::TCP || packet.is_fragment() {
        return Seen::Other;
    }
    let Ok(segment) = TcpPacket::new_checked(packet.payload()) else { return Seen::Other };
    if segment.rst() {
        return Seen::Resets;
    }
    if !segment.syn() {
        return Seen::Other;
    }
    if segment_size(&segment).is_some_and(|size| size < LEAST_SEGMENT) {
        return Seen::Unusable;
    }
    if segment.ack() {
        return Seen::Other;
    }
    let from = SocketAddr::new(packet.source(), segment.src_port());
    Seen::Begins(Incoming { from, to: SocketAddr::new(packet.destination(), segment.dst_port()) })
}

/// Returns the segment size that the sender of a SYN accepts, if it says one: the smallest of several, because the stack takes the last one.
fn segment_size(segment: &TcpPacket<&[u8]>) -> Option<u16> {
    let (mut options, mut found) = (segment.options(), None);
    while !options.is_empty() {
        let Ok((rest, option)) = TcpOption::parse(options) else { break };
        match option {
            TcpOption::MaxSegmentSize(size) => found = Some(found.map_or(size, |least: u16| least.min(size))),
            TcpOption::EndOfList => break,
            _ => {}
        }
        options = rest;
    }
    found
}
