//! The loop: packets of the lane, sockets of this host, lines of the daemon.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use smoltcp::iface::SocketHandle;
use smoltcp::time::Instant;
use socket2::{Domain, SockRef, Socket, TcpKeepalive, Type};
use taut_base::Time;
use taut_event::{Event, Events, Interest, Poller, boot_time};
use taut_proxy::{Refusal, Report, ServiceReport, Setup};
use taut_tun::{Offload, Tun};

use crate::connection::{Connection, Context};
use crate::names::Names;
use crate::report::Control;
use crate::services::{LocalService, published};
use crate::shares::{Client, MOST, Shares};
use crate::stack::{Incoming, Stack};

const TOKEN_DEVICE: u64 = 0;
const TOKEN_CONTROL: u64 = 1;
const FIRST_SERVICE: u64 = 16;
const FIRST_CONNECTION: u64 = 4_096;

/// Interval of keepalives to programs on other hosts that use a service, 60 s: one that vanished holds its place for some minutes and not for hours.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// Runs the network until the daemon ends. `device` is the packets' socket, and `control` the stream with the daemon's [`Setup`].
///
/// # Errors
/// If the setup is none, or the kernel refuses what every process may do.
pub fn run(device: OwnedFd, control: UnixStream) -> io::Result<()> {
    let mut control = Control::new(control);
    let setup = match control.first() {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
        setup => setup?,
    };
    let tun = Tun::from_packet_socket(device, "userspace", Offload::PACKET_SOCKET)?;
    let mut server = Server::new(tun, setup, control)?;
    match server.run() {
        // A socket whose other end was closed with packets in it reports a reset.
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => Ok(()),
        result => result,
    }
}

struct Server {
    poller: Poller,
    stack: Stack,
    names: Names,
    setup: Setup,
    control: Control,
    services: Vec<LocalService>,
    connections: Vec<Option<Connection>>,
    /// Places of `connections` without a connection.
    free: Vec<usize>,
    shares: Shares,
    published: Vec<ServiceReport>,
    /// What the poller watches the packets' socket for.
    device_interest: Interest,
}

impl Server {
    fn new(tun: Tun, setup: Setup, control: Control) -> io::Result<Self> {
        let stack = Stack::new(tun, setup.mtu, &setup.addresses, instant(clock()));
        let poller = Poller::new()?;
        poller.add(stack.as_fd(), TOKEN_DEVICE, Interest::READ)?;
        poller.add(control.as_fd(), TOKEN_CONTROL, Interest::READ)?;
        let services = LocalService::open_all(&setup);
        for (service, token) in services.iter().zip(FIRST_SERVICE..) {
            service.register(&poller, token)?;
        }
        let published = published(&setup).collect();
        Ok(Self {
            poller,
            stack,
            names: Names::default(),
            setup,
            control,
            services,
            connections: Vec::new(),
            free: Vec::new(),
            shares: Shares::default(),
            published,
            device_interest: Interest::READ,
        })
    }

    fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(256);
        loop {
            let report = self.report();
            self.control.report(&report, clock());
            let delay = self.delay(&report);
            self.poller.wait(&mut events, delay)?;
            let now = clock();
            for event in events.iter() {
                self.handle(event, now)?;
            }
            self.turn(now)?;
        }
    }

    fn handle(&mut self, event: Event, now: Time) -> io::Result<()> {
        match event.token {
            TOKEN_DEVICE => {}
            TOKEN_CONTROL => {
                if let Some(newest) = self.control.newest()? {
                    let Setup { reachable, name_servers, zone, .. } = newest;
                    (self.setup.reachable, self.setup.name_servers, self.setup.zone) = (reachable, name_servers, zone);
                }
            }
            FIRST_CONNECTION.. => {
                let place = usize::try_from(event.token - FIRST_CONNECTION).unwrap_or(usize::MAX);
                if let Some(Some(connection)) = self.connections.get_mut(place) {
                    connection.flow.readable |= event.readable;
                    connection.flow.writable |= event.writable;
                    if event.hangup {
                        // It would be reported again and again while there is no room for what is still to be read.
                        self.poller.remove(connection.local.as_fd());
                        connection.watched = None;
                    }
                }
            }
            token => self.accept(token, now),
        }
        Ok(())
    }

    /// Does all the work that can be done.
    fn turn(&mut self, now: Time) -> io::Result<()> {
        self.receive(now)?;
        self.names.turn(&mut self.stack, &self.setup.name_servers, now);
        for place in 0..self.connections.len() {
            self.turn_connection(place, now);
        }
        self.stack.send(instant(now));
        for (service, token) in self.services.iter_mut().zip(FIRST_SERVICE..) {
            service.resume(&self.poller, token, now);
        }
        let wanted = if self.stack.is_full() { Interest::READ_WRITE } else { Interest::READ };
        if wanted != self.device_interest {
            self.device_interest = wanted;
            self.poller.modify(self.stack.as_fd(), TOKEN_DEVICE, wanted)?;
        }
        Ok(())
    }

    /// Reads packets, and decides about connections that peers begin.
    fn receive(&mut self, now: Time) -> io::Result<()> {
        let mut begun: Vec<(SocketHandle, SocketAddr, TcpStream)> = Vec::new();
        let (setup, shares) = (&self.setup, &mut self.shares);
        let result = self.stack.receive(instant(now), |stack, incoming| {
            let target = target(setup, incoming)?;
            // Without a socket the stack answers with a reset: nothing listens, or the peer has as many connections as it may have.
            let client = Client::Peer(incoming.from.ip());
            shares.take(client).then_some(())?;
            match reach(target).ok().and_then(|local| Some((stack.listen(incoming)?, local))) {
                Some((handle, local)) => {
                    begun.push((handle, incoming.from, local));
                    Some(handle)
                }
                None => {
                    shares.give_back(client);
                    None
                }
            }
        });
        for (handle, from, local) in begun {
            self.add(Connection::incoming(local, Client::Peer(from.ip()), handle, now));
        }
        result
    }

    /// Accepts connections of programs to a service.
    fn accept(&mut self, token: u64, now: Time) {
        let place = usize::try_from(token - FIRST_SERVICE).unwrap_or(usize::MAX);
        let Some(service) = self.services.get_mut(place) else { return };
        let (protocol, target) = (service.protocol(), service.target.clone());
        for (local, from) in service.accept(&self.poller, token, now) {
            let client = Client::of_service(from.ip());
            if !self.shares.take(client) {
                use std::io::Write;
                // A new socket has room for it; what the client said is not read, so it is reset afterwards.
                let _ = (&local).write(&protocol.refused(Refusal::TooMany));
                continue;
            }
            let _ = local.set_nodelay(true);
            if !from.ip().is_loopback() {
                let _ = SockRef::from(&local).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEP_ALIVE));
            }
            let mut connection = Connection::outgoing(local, client, protocol.clone(), now);
            if let Some(target) = &target {
                connection.go(target, &mut context(&mut self.stack, &mut self.names, &self.setup, now));
            }
            self.add(connection);
        }
    }

    /// Adds a connection, whose place is counted already.
    fn add(&mut self, connection: Connection) {
        let place = self.free.pop().unwrap_or(self.connections.len());
        let token = FIRST_CONNECTION + place as u64;
        let watched = connection.watched.unwrap_or(Interest::NONE);
        // Fails only without memory in the kernel. The connection then ends at its deadline.
        let _ = self.poller.add(connection.local.as_fd(), token, watched);
        match self.connections.get_mut(place) {
            Some(free) => *free = Some(connection),
            None => self.connections.push(Some(connection)),
        }
    }

    fn turn_connection(&mut self, place: usize, now: Time) {
        let Some(slot) = self.connections.get_mut(place) else { return };
        let Some(connection) = slot else { return };
        if !connection.turn(&mut context(&mut self.stack, &mut self.names, &self.setup, now)) {
            self.poller.remove(connection.local.as_fd());
            self.shares.give_back(connection.client);
            *slot = None;
            self.free.push(place);
            return;
        }
        let wanted = connection.interest(&mut self.stack);
        if connection.watched.is_some_and(|watched| watched != wanted) {
            connection.watched = Some(wanted);
            let _ = self.poller.modify(connection.local.as_fd(), FIRST_CONNECTION + place as u64, wanted);
        }
    }

    fn report(&self) -> Report {
        let services = self.services.iter().map(LocalService::report).chain(&self.published).cloned().collect();
        let connections = u32::try_from(self.shares.taken().min(MOST)).unwrap_or_default();
        Report { services, connections, over_limit: self.shares.refused() }
    }

    /// Returns the time until something is due.
    fn delay(&mut self, report: &Report) -> Option<Duration> {
        let now = clock();
        let stack = self.stack.delay(instant(now)).map(|delay| now + delay);
        let connections = self.connections.iter().flatten().map(Connection::deadline).min();
        let services = self.services.iter().filter_map(|service| service.paused).min();
        let due = [stack, connections, services, self.names.poll_timeout(), self.control.poll_timeout(report)];
        due.into_iter().flatten().min().map(|due| due.since(now))
    }
}

fn context<'a>(stack: &'a mut Stack, names: &'a mut Names, setup: &'a Setup, now: Time) -> Context<'a> {
    let Setup { reachable, name_servers, zone, .. } = setup;
    Context { stack, names, reachable, name_servers, zone, now }
}

/// Returns where connections to a published port lead.
fn target(setup: &Setup, incoming: &Incoming) -> Option<SocketAddr> {
    let is_own = setup.addresses.contains(&incoming.to.ip());
    setup.publish.iter().find(|publish| is_own && publish.port == incoming.to.port()).map(|publish| publish.target)
}

/// Begins to connect to a program.
fn reach(target: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(target), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    match socket.connect(&target.into()) {
        Err(error) if error.raw_os_error() != Some(EINPROGRESS) => return Err(error),
        _ => {}
    }
    Ok(socket.into())
}

/// The error of a connection that is being made (include/uapi/asm-generic/errno.h; the same on all targets but MIPS).
const EINPROGRESS: i32 = if cfg!(any(target_arch = "mips", target_arch = "mips64")) { 150 } else { 115 };

fn clock() -> Time {
    Time::from_duration(boot_time())
}

fn instant(now: Time) -> Instant {
    Instant::from_micros(i64::try_from(now.since(Time::ZERO).as_micros()).unwrap_or(i64::MAX))
}
