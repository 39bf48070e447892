//! The lane's thread: one epoll over command queue, socket and TUN.
//!
//! ```text
//! wait ─▶ commands ─▶ receive (UDP → TUN) ─▶ timers ─▶ take (from other lanes) ─▶ read (TUN → UDP) ─▶ send ─▶ tell the agent, wake lanes ─▶ wait
//! ```
//! Each turn has a budget, so that neither direction starves the other. While the socket is full, or a packet finds no room in the ring that it has to
//! go by, the TUN is not read (law 9). What is between lanes is in `hand`.

mod hand;
mod port_search;

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use taut_base::{LaneId, PeerId, Time};
use taut_event::{Events, Interest, Poller, Waker, boot_time};
use taut_node::{FromLane, Reading, ToLane};
use taut_tun::Tun;
use taut_tunnel::Limits;
use taut_tunnel::cookie::CookieChecker;
use taut_udp::{MAX_MESSAGES, ReceiveBatch, Transmit, UdpSocket};
use taut_wire::ecn::Ecn;
use taut_wire::merge::{MAX_RUN, Offloads, Run};
use taut_wire::vnet::GSO_UDP_L4;

use crate::batch::{Flush, SendBatch};
use crate::busy_poll::BusyPoll;
use crate::drops::{Drop, DropCounts};
use crate::lane_core::LaneCore;
use crate::locals::LocalTable;
use crate::ports::InboundPorts;
use crate::queue::LaneEnd;
use crate::replacement::Replacement;
use crate::ring::{Arrival, Buffer, Handed, Rings, buffer};
use crate::tables::TrafficTable;
use hand::Drain;
use port_search::{PortSearches, TOKENS};

/// Messages per receive call: with GRO each holds up to 64 datagrams.
const RECEIVE_MESSAGES: usize = 8;
/// Receive calls per turn.
const RECEIVE_BUDGET: usize = 8;
/// Superpackets read per turn.
const READ_BUDGET: usize = 64;
/// So many datagrams of a train are written, and then whoever they are for may read: a socket with the kernel's usual buffer (`net.core.rmem_default`)
/// holds 92 of 1,400 bytes, and another train may be next.
const MOUTHFUL: usize = 16;
/// What a lane's thread needs of stack: the merger and the arrays of a system call, with room to spare.
const STACK: usize = 256 * 1024;

/// How soon something for the agent that found its queue full is said again.
const QUEUE_RETRY: Duration = Duration::from_millis(5);

const TOKEN_WAKER: u64 = 0;
const TOKEN_UDP: u64 = 1;
const TOKEN_TUN: u64 = 2;

/// What a lane is made of.
pub struct Config {
    /// Which lane it is, and of how many.
    pub own: LaneId,
    /// See [`Self::own`].
    pub lanes: u8,
    /// Its ends of the rings to and from the others.
    pub rings: Rings,
    /// Its TUN queue.
    pub tun: Tun,
    /// MTU of the TUN, in bytes.
    pub mtu: u16,
    /// Its socket.
    pub udp: UdpSocket,
    /// What handshake messages to this node are judged by.
    pub checker: CookieChecker,
    /// WireGuard's time limits.
    pub limits: Limits,
    /// Its end of the queues.
    pub queues: LaneEnd,
    /// Woken by the agent.
    pub waker: Waker,
    /// Whether packets are waited for without sleeping: sooner there, at the price of up to a core.
    pub low_latency: bool,
}

/// What everybody may read of a lane.
#[derive(Debug, Default)]
pub struct Shared {
    /// Dropped packets by reason.
    pub drops: Arc<DropCounts>,
    /// Bytes by peer.
    pub traffic: Arc<TrafficTable>,
    /// Which addresses of ours peers speak to.
    pub locals: Arc<LocalTable>,
    replacement: Replacement,
    handed_over: AtomicU64,
    strays: AtomicU64,
    stop: AtomicBool,
    /// Set when the thread ended by itself: the TUN is gone.
    failed: AtomicBool,
}

impl Shared {
    /// Packets and superpackets of the host that this lane read and handed over to another.
    pub fn handed_over(&self) -> u64 {
        self.handed_over.load(Ordering::Relaxed)
    }

    /// Datagrams that came to this lane's socket and carried another's index.
    pub fn strays(&self) -> u64 {
        self.strays.load(Ordering::Relaxed)
    }
}

/// A running lane. Dropped or stopped, it closes its TUN queue and its socket.
pub struct Lane {
    shared: Arc<Shared>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Lane {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the kernel has no epoll or thread left.
    pub fn start(config: Config) -> Result<Self, StartError> {
        let shared = Arc::new(Shared::default());
        let waker = config.waker.clone();
        let name = format!("taut-lane-{}", config.own.0);
        let mut worker = Worker::new(config, Arc::clone(&shared)).map_err(StartError)?;
        let thread =
            std::thread::Builder::new().name(name).stack_size(STACK).spawn(move || worker.run()).map_err(StartError)?;
        Ok(Self { shared, waker, thread: Some(thread) })
    }

    /// What everybody may read of it.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Whether the lane ended by itself, because its TUN was taken away.
    pub fn has_failed(&self) -> bool {
        self.shared.failed.load(Ordering::Acquire)
    }

    /// Has the lane go on with another socket, and waits until it closed the former one. What waited to be sent goes by the new one.
    pub fn replace_socket(&self, socket: UdpSocket) {
        self.shared.replacement.offer(socket, || self.waker.wake());
    }

    /// Ends the thread and waits for it; TUN queue and socket are closed then.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A lane that panicked has printed why; there is nothing left to wait for.
            let _ = thread.join();
        }
    }
}

impl std::ops::Drop for Lane {
    fn drop(&mut self) {
        self.end();
    }
}

/// A lane could not be started.
#[derive(Debug)]
pub struct StartError(io::Error);

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the data plane's thread could not be started: {}; raise the limits of threads and file descriptors",
            self.0
        )
    }
}

impl std::error::Error for StartError {}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self(error)
    }
}

struct Worker {
    core: LaneCore,
    out: SendBatch,
    tun: Tun,
    udp: UdpSocket,
    queues: LaneEnd,
    waker: Waker,
    poller: Poller,
    received: ReceiveBatch,
    read: Buffer,
    shared: Arc<Shared>,
    own: LaneId,
    lanes: u8,
    rings: Rings,
    reading: Reading,
    /// What found no room in its ring, in order.
    outbox: VecDeque<(LaneId, Handed)>,
    /// Nothing is read before what waits in the rings is taken.
    rings_first: bool,
    /// The agent wants to know when everything is read, see [`Drain`].
    drain: Option<Drain>,
    /// What the poller looks for at the socket and at the TUN.
    interests: (Interest, Interest),
    /// The socket is full: what is in `out` waits, and the TUN is not read.
    blocked: bool,
    /// What the agent's queue had no room for.
    unsaid: Option<FromLane>,
    busy_poll: BusyPoll,
    digs: PortSearches,
}

impl Worker {
    fn new(config: Config, shared: Arc<Shared>) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(config.waker.as_fd(), TOKEN_WAKER, Interest::READ)?;
        poller.add(config.udp.as_fd(), TOKEN_UDP, Interest::READ)?;
        poller.add(config.tun.as_fd(), TOKEN_TUN, Interest::READ)?;
        let granted = config.tun.offload();
        let offloads =
            Offloads { tcp4: granted.tso, tcp6: granted.tso, ecn: false, udp4: granted.uso, udp6: granted.uso };
        let mut core = LaneCore::new(
            config.limits,
            config.mtu,
            config.checker,
            granted.vnet_header,
            offloads,
            Arc::clone(&shared.drops),
            Arc::clone(&shared.traffic),
        )
        .as_lane(config.own, config.lanes);
        core.share_locals(Arc::clone(&shared.locals));
        let reading = if config.own == LaneId::FIRST { Reading::Own } else { Reading::Nothing };
        Ok(Self {
            core,
            out: SendBatch::new(),
            tun: config.tun,
            udp: config.udp,
            queues: config.queues,
            waker: config.waker,
            poller,
            received: ReceiveBatch::new(RECEIVE_MESSAGES)?,
            read: buffer(),
            shared,
            own: config.own,
            lanes: config.lanes,
            rings: config.rings,
            reading,
            outbox: VecDeque::new(),
            rings_first: false,
            drain: None,
            interests: (Interest::READ, Interest::READ),
            blocked: false,
            unsaid: None,
            busy_poll: BusyPoll::new(config.low_latency),
            digs: PortSearches::default(),
        })
    }

    fn run(&mut self) {
        let mut events = Events::with_capacity(4);
        while !self.shared.stop.load(Ordering::Acquire) {
            let now = clock();
            let retry = self.unsaid.is_some().then(|| now + QUEUE_RETRY);
            let due = self.core.poll_timeout().into_iter().chain(retry).chain(self.digs.poll_timeout()).min();
            let timeout = due.map(|due| due.since(now));
            if self.wait(&mut events, now, timeout).is_err() {
                break;
            }
            if self.turn(&events).is_err() {
                break;
            }
        }
        if !self.shared.stop.load(Ordering::Acquire) {
            self.shared.failed.store(true, Ordering::Release);
            self.queues.wake_keeper();
        }
    }

    /// Waits for something to do. If that pays it looks for it for a while before it sleeps.
    fn wait(&mut self, events: &mut Events, start: Time, timeout: Option<Duration>) -> io::Result<()> {
        let due = timeout.map(|timeout| start + timeout);
        let mut now = start;
        self.busy_poll.waits(start);
        while self.busy_poll.lasts(now) && due.is_none_or(|due| now < due) {
            self.poller.wait(events, Some(Duration::ZERO))?;
            if !events.is_empty() {
                return Ok(());
            }
            let away;
            (away, now) = give_way();
            self.busy_poll.idled(away, now);
        }
        self.poller.wait(events, due.map(|due| due.since(now)))
    }

    /// One turn. An error means that the TUN is gone.
    fn turn(&mut self, events: &Events) -> io::Result<()> {
        let now = clock();
        self.busy_poll.woke(now);
        let (mut udp_readable, mut tun_readable) = (false, false);
        for event in events.iter() {
            match event.token {
                TOKEN_WAKER => {
                    self.waker.drain();
                    self.take_socket()?;
                }
                TOKEN_UDP => {
                    udp_readable |= event.readable;
                    if event.writable && self.blocked {
                        self.send(Flush::All);
                    }
                }
                TOKEN_TUN => tun_readable |= event.readable,
                _ if event.writable && self.blocked => self.send(Flush::All),
                _ => {}
            }
        }
        if udp_readable || tun_readable {
            self.busy_poll.packets(now);
        }
        while let Some(command) = self.queues.command() {
            self.command(command, now);
            if !self.out.has_room() {
                self.send(Flush::All);
            }
        }
        if udp_readable {
            self.receive(None, now);
        }
        if !self.digs.is_empty() {
            for event in events.iter().filter(|event| event.token >= TOKENS && event.readable) {
                self.receive_dug(event.token, now);
            }
            self.go_on_digging(now);
        }
        self.core.handle_timeout(&mut self.out, now);
        if self.lanes > 1 || self.core.has_released() {
            self.take(now);
        }
        if (tun_readable || self.drain.is_some()) && self.may_read() {
            self.read(now)?;
        }
        self.drained(now);
        self.send(Flush::All);
        while !self.blocked && self.core.send_backlog(&mut self.out, now) {
            self.send(Flush::All);
        }
        if self.core.has_released() {
            self.release(now);
            self.send(Flush::All);
        }
        self.tell_keeper();
        self.rings.wake();
        self.set_interests();
        Ok(())
    }

    fn command(&mut self, command: ToLane, now: Time) {
        match command {
            ToLane::Read(reading) => {
                self.reading = reading;
                // What others read before us comes first.
                self.rings_first = self.lanes > 1;
            }
            ToLane::Drain => {
                self.drain = Some(Drain::default());
                self.core.hold_nothing(true, now);
            }
            other => {
                if let Some(other) = self.port_search(other, now) {
                    self.core.command(other, &mut self.out, now);
                }
            }
        }
    }

    /// Whether the host's packets may be read: not while one of them has nowhere to go.
    fn may_read(&self) -> bool {
        self.reading != Reading::Nothing && !self.blocked && self.out.has_room() && !self.rings_first && self.is_free()
    }

    /// UDP → TUN, from the lane's own socket or one beside it. Returns whose the last authentic packet was and where it came from.
    fn receive(&mut self, by: Option<u64>, now: Time) -> Option<(PeerId, SocketAddr)> {
        let mut heard = None;
        for _ in 0..RECEIVE_BUDGET {
            let socket = by.map_or(Some(&self.udp), |token| self.digs.socket(token));
            if socket.is_none_or(|socket| socket.recv(&mut self.received).is_err()) {
                return heard;
            }
            let mut ports = Ports::of(&self.tun, &self.queues, &mut self.rings, &self.shared);
            for received in self.received.iter_mut() {
                ports.arrival = Arrival { local: received.local, congestion: Ecn::of(received.ecn) };
                self.core.arrived_at(ports.arrival.local, ports.arrival.congestion);
                let (source, size) = (received.source, received.segment_size);
                let peer = self.core.inbound(source, received.data, size, &mut ports, &mut self.out, now);
                heard = peer.map(|peer| (peer, source)).or(heard);
                if ports.fed >= MOUTHFUL {
                    ports.fed = 0;
                    if self.busy_poll.may_give_way(clock()) {
                        let (away, now) = give_way();
                        self.busy_poll.gave_way(away, now);
                    }
                }
            }
            for command in ports.later {
                self.command(command, now);
            }
            if self.received.len() < RECEIVE_MESSAGES {
                return heard;
            }
        }
        heard
    }

    /// TUN → send batch, and out whenever a message is full; what is left goes with the turn's last send, when the TUN is drained.
    fn read(&mut self, now: Time) -> io::Result<()> {
        for _ in 0..READ_BUDGET {
            match self.tun.read(&mut self.read) {
                Ok(length) => self.route(length, now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.found_empty();
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.out.is_worth_sending() {
                self.send(Flush::Full);
            }
            if self.blocked || !self.out.has_room() || !self.is_free() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends what is in the batch, or as much as the socket takes.
    fn send(&mut self, flush: Flush) {
        let nowhere = Transmit {
            destination: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            contents: &[],
            segment_size: 0,
            ecn: 0,
        };
        let (mut blocked, mut full) = (false, None);
        while !blocked {
            let mut transmits = [nowhere; MAX_MESSAGES];
            let count = self.out.transmits(flush, &mut transmits);
            if count == 0 {
                break;
            }
            let core = &self.core;
            let (socket, token, count) = self.digs.route(&self.udp, &transmits[..count]);
            let sent = socket.send_from(&transmits[..count], |run| core.local_for(run.destination, run.contents));
            blocked = sent.blocked;
            full = token.filter(|_| blocked);
            self.shared.drops.add(Drop::SendFailed, sent.failed as u64);
            self.out.consume(sent.sent, sent.partial);
            if let Some(refused) = sent.refused {
                self.core.local_refused(refused);
            }
        }
        self.blocked = blocked;
        self.digs.set_full(full, &self.poller);
    }

    /// Goes on with another socket, if the agent has one for us. What came in by the former one and was not read yet is lost.
    fn take_socket(&mut self) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        shared.replacement.take(|socket| {
            self.poller.add(socket.as_fd(), TOKEN_UDP, Interest::READ)?;
            self.poller.remove(self.udp.as_fd());
            self.udp = socket;
            // Another port is another flow to every NAT and firewall on the way: what was learned of the former one does not hold (fault D19).
            self.core.forget_locals(&mut |_, _| true);
            self.blocked = false;
            self.interests.0 = Interest::READ;
            Ok(())
        })
    }

    fn set_interests(&mut self) {
        let udp = if self.blocked && !self.digs.is_full() { Interest::READ_WRITE } else { Interest::READ };
        let tun = if self.may_read() { Interest::READ } else { Interest::NONE };
        if (udp, tun) == self.interests {
            return;
        }
        self.interests = (udp, tun);
        // Both are registered and open, so the kernel has no reason to refuse; if it did, the next change would set them again.
        let _ = self.poller.modify(self.udp.as_fd(), TOKEN_UDP, udp);
        let _ = self.poller.modify(self.tun.as_fd(), TOKEN_TUN, tun);
    }

    fn tell_keeper(&mut self) {
        while let Some(event) = self.unsaid.take().or_else(|| self.core.poll_event()) {
            if let Err(event) = self.queues.say(event) {
                self.unsaid = Some(event);
                break;
            }
        }
        while let Some(handshake) = self.core.poll_handshake() {
            if self.queues.say(handshake).is_err() {
                self.shared.drops.add(Drop::KeeperBusy, 1);
            }
        }
    }
}

/// The real outlets of the way in.
struct Ports<'a> {
    tun: &'a Tun,
    queues: &'a LaneEnd,
    vnet_header: bool,
    rings: &'a mut Rings,
    shared: &'a Shared,
    /// How what is being read came.
    arrival: Arrival,
    /// Datagrams that were written since the host's programs had a chance to read them.
    fed: usize,
    /// Commands that are not the lane core's: they are carried out when this batch is done.
    later: Vec<ToLane>,
}

impl<'a> Ports<'a> {
    fn of(tun: &'a Tun, queues: &'a LaneEnd, rings: &'a mut Rings, shared: &'a Shared) -> Self {
        let vnet_header = tun.offload().vnet_header;
        Self { tun, queues, vnet_header, rings, shared, arrival: Arrival::UNKNOWN, fed: 0, later: Vec::new() }
    }
}

impl InboundPorts for Ports<'_> {
    fn write(&mut self, run: Run<'_>) -> bool {
        if run.header().gso_type == GSO_UDP_L4 {
            self.fed += run.packets();
        }
        let header = run.header().encode();
        let mut pieces = [IoSlice::new(&[]); 1 + MAX_RUN];
        pieces[0] = IoSlice::new(if self.vnet_header { &header } else { &[] });
        let mut count = 1;
        for (place, slice) in pieces[1..].iter_mut().zip(run.slices()) {
            *place = IoSlice::new(slice);
            count += 1;
        }
        self.tun.write_vectored(&pieces[..count]).is_ok()
    }

    fn hand_over(&mut self, to: LaneId, source: SocketAddr, datagram: &[u8]) -> bool {
        let taken = self.rings.stray(to, source, self.arrival, datagram);
        self.shared.strays.fetch_add(u64::from(taken), Ordering::Relaxed);
        taken
    }

    fn next_command(&mut self) -> Option<ToLane> {
        loop {
            match self.queues.command()? {
                command @ (ToLane::Read(_) | ToLane::Drain | ToLane::OpenSearch { .. } | ToLane::CloseSearch(_)) => {
                    self.later.push(command);
                }
                command => return Some(command),
            }
        }
    }
}

/// Lets whoever waits for this core have it. For how long it was away, and what time it is then.
fn give_way() -> (Duration, Time) {
    let before = clock();
    std::thread::yield_now();
    let now = clock();
    (now.since(before), now)
}

fn clock() -> Time {
    Time::from_duration(boot_time().max(Duration::from_nanos(1)))
}
