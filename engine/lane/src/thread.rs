//! The lane's thread: one epoll over command queue, socket and TUN.
//!
//! ```text
//! wait ─▶ commands ─▶ receive (UDP → TUN) ─▶ timers ─▶ take (from other lanes) ─▶ read (TUN → UDP) ─▶ send ─▶ outputs to the agent, wake lanes ─▶ wait
//! ```
//! Each turn has a budget, so that neither direction starves the other. While the socket is full, or a packet finds its ring full, the TUN is not read
//! (law 9).

mod drain;
mod hand_off;
mod io;
mod port_search;

use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use taut_base::{LaneId, PeerId, Placement, Time};
use taut_event::{Events, Interest, Poller, ThreadTime, Waker, boot_time};
use taut_node::{Reading, ToLane};
use taut_tun::Tun;
use taut_tunnel::Limits;
use taut_tunnel::cookie::CookieChecker;
use taut_udp::{MAX_MESSAGES, ReceiveBatch, Transmit, UdpSocket};
use taut_wire::ecn::Ecn;
use taut_wire::merge::Offloads;
use taut_wire::vnet::VnetHeader;

use crate::batch::{Flush, SendBatch};
use crate::busy_poll::BusyPoll;
use crate::drops::DropReason;
use crate::lane_core::LaneCore;
use crate::queue::LaneEnd;
use crate::ring::{DatagramMeta, PacketBuffer, RingItem, Rings, packet_buffer};
use crate::shared::LaneShared;
use drain::DrainProgress;
use io::ThreadIo;
use port_search::{PortSearches, TOKENS};

/// Messages per receive call, 8: with GRO each holds up to 64 datagrams.
const RECEIVE_MESSAGES: usize = 8;
/// Receive calls per turn, 8.
const RECEIVE_BUDGET: usize = 8;
/// Superpackets read per turn, 64.
const READ_BUDGET: usize = 64;
/// UDP datagrams that are written before the lane yields its core to their reader, 16. A socket with the kernel's default buffer (`net.core.rmem_default`)
/// holds 92 datagrams of 1,400 bytes, and another train of datagrams may be next.
const YIELD_AFTER: usize = 16;
/// Time after which a message is offered again to the agent's full queue, 5 ms.
const QUEUE_RETRY: Duration = Duration::from_millis(5);

const TOKEN_WAKER: u64 = 0;
const TOKEN_UDP: u64 = 1;
const TOKEN_TUN: u64 = 2;

/// What a lane is made of.
pub struct LaneConfig {
    /// Its number.
    pub own: LaneId,
    /// Number of the node's lanes.
    pub lanes: u8,
    /// Its ends of the rings to and from the other lanes.
    pub rings: Rings,
    /// Its TUN queue.
    pub tun: Tun,
    /// MTU of the TUN, in bytes.
    pub mtu: u16,
    /// Its socket.
    pub udp: UdpSocket,
    /// Checks handshake messages to this node.
    pub checker: CookieChecker,
    /// WireGuard's time limits.
    pub limits: Limits,
    /// Its end of the queues.
    pub queues: LaneEnd,
    /// Woken by the agent.
    pub waker: Waker,
    /// True if each peer belongs to one lane ([`taut_base::PeerId::only_lane`]).
    pub by_peer: bool,
    /// True for lower latency at the price of up to one core: the lane busy-polls after each packet.
    pub low_latency: bool,
    /// True if flows that keep a queue of the lane long get congestion marks.
    pub congestion_marks: bool,
}

/// The state of a lane's thread.
pub(crate) struct LaneThread {
    core: LaneCore,
    out: SendBatch,
    tun: Tun,
    udp: UdpSocket,
    queues: LaneEnd,
    waker: Waker,
    poller: Poller,
    received: ReceiveBatch,
    read: PacketBuffer,
    shared: Arc<LaneShared>,
    own: LaneId,
    lanes: u8,
    /// The lane of each flow, while this lane distributes the host's packets.
    placement: Placement,
    /// True if each peer belongs to one lane: all lanes seal what they are handed off.
    by_peer: bool,
    rings: Rings,
    reading: Reading,
    /// Items that found their ring full, in order.
    waiting_for_ring: VecDeque<(LaneId, RingItem)>,
    /// True if the TUN is not read before everything is taken that waits in the rings.
    rings_first: bool,
    /// The drain that the agent waits for.
    drain: Option<DrainProgress>,
    /// The poller's interest in the socket and in the TUN.
    interests: (Interest, Interest),
    /// True while the socket is full: `out` waits, and the TUN is not read.
    blocked: bool,
    busy_poll: BusyPoll,
    /// What the kernel counts of this thread's time; `None` before the thread runs, and if the kernel does not count it.
    time: Option<ThreadTime>,
    congestion_marks: bool,
    searches: PortSearches,
}

impl LaneThread {
    pub(crate) fn new(config: LaneConfig, shared: Arc<LaneShared>) -> std::io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(config.waker.as_fd(), TOKEN_WAKER, Interest::READ)?;
        poller.add(config.udp.as_fd(), TOKEN_UDP, Interest::READ)?;
        poller.add(config.tun.as_fd(), TOKEN_TUN, Interest::READ)?;
        let granted = config.tun.offload();
        let offloads =
            Offloads { tcp4: granted.tso, tcp6: granted.tso, ecn: granted.tso, udp4: granted.uso, udp6: granted.uso };
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
        if config.by_peer {
            core = core.by_peer();
        }
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
            read: packet_buffer(),
            shared,
            own: config.own,
            lanes: config.lanes,
            placement: Placement::new(config.lanes),
            by_peer: config.by_peer,
            rings: config.rings,
            reading,
            waiting_for_ring: VecDeque::new(),
            rings_first: false,
            drain: None,
            interests: (Interest::READ, Interest::READ),
            blocked: false,
            busy_poll: BusyPoll::new(config.low_latency),
            time: None,
            congestion_marks: config.congestion_marks,
            searches: PortSearches::default(),
        })
    }

    /// Carries packets until the lane is stopped or its TUN is gone.
    pub(crate) fn run(&mut self) {
        let mut events = Events::with_capacity(4);
        self.time = ThreadTime::of_this_thread();
        while !self.shared.is_stopped() {
            let now = clock();
            self.core.turn_ends(now);
            // An output is left only if the agent's queue was full.
            let retry = self.core.has_output().then(|| now + QUEUE_RETRY);
            let due = self.core.poll_timeout().into_iter().chain(retry).chain(self.searches.poll_timeout()).min();
            let timeout = due.map(|due| due.since(now));
            if self.wait(&mut events, now, timeout).is_err() {
                break;
            }
            if self.turn(&events).is_err() {
                break;
            }
        }
        if !self.shared.is_stopped() {
            self.shared.fail();
            self.queues.wake_agent();
        }
    }

    /// Waits for something to do: polls while that pays, then blocks.
    fn wait(&mut self, events: &mut Events, start: Time, timeout: Option<Duration>) -> std::io::Result<()> {
        let due = timeout.map(|timeout| start + timeout);
        let mut now = start;
        self.busy_poll.wait_begins(start);
        while self.busy_poll.polls(now) && due.is_none_or(|due| now < due) {
            self.poller.wait(events, Some(Duration::ZERO))?;
            if !events.is_empty() {
                self.core.polled(now.since(start));
                return Ok(());
            }
            let away;
            (away, now) = yield_core();
            self.busy_poll.yielded_idle(away, now);
        }
        self.core.polled(now.since(start));
        self.poller.wait(events, due.map(|due| due.since(now)))
    }

    /// Does one turn. An error means that the TUN is gone.
    fn turn(&mut self, events: &Events) -> std::io::Result<()> {
        let now = clock();
        self.busy_poll.turn_begins(now);
        let time = &self.time;
        self.core.turn_begins(now, || time.as_ref().and_then(ThreadTime::ran_and_waited));
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
            self.busy_poll.saw_packets(now);
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
        if !self.searches.is_empty() {
            for event in events.iter().filter(|event| event.token >= TOKENS && event.readable) {
                if let Some((peer, source)) = self.receive(Some(event.token), now) {
                    self.searches.received(event.token, peer, source, &self.poller);
                }
            }
            self.continue_search(now);
        }
        self.core.handle_timeout(&mut self.out, now);
        if self.lanes > 1 || self.core.has_released() {
            self.take_handed_off(now);
        }
        if (tun_readable || self.drain.is_some()) && self.may_read() {
            self.read(now)?;
        }
        self.finish_drain();
        self.send(Flush::All);
        while !self.blocked && self.core.send_backlog(&mut self.out, now) {
            self.send(Flush::All);
        }
        if self.core.has_released() {
            self.release(now);
            self.send(Flush::All);
        }
        self.tell_host();
        self.drain_outputs();
        self.rings.wake();
        self.set_interests();
        Ok(())
    }

    /// Carries out a command: its own part here, the rest in the lane core.
    fn command(&mut self, command: ToLane, now: Time) {
        match command {
            ToLane::Read(reading) => {
                self.reading = reading;
                // Packets that other lanes read before come first.
                self.rings_first = self.lanes > 1;
            }
            ToLane::Drain => {
                self.drain = Some(DrainProgress::default());
                self.core.begin_drain(now);
            }
            ToLane::Lanes(placement) => {
                let lanes = placement.lanes();
                (self.lanes, self.placement) = (lanes, placement);
                self.core.set_placement(placement);
                self.rings = self.shared.take_rings();
                self.rings_first &= lanes > 1;
            }
            ToLane::OpenSearch { peer, session, search } => {
                self.close_search(peer);
                self.searches.open(peer, session, search, now);
            }
            ToLane::CloseSearch(peer) => self.close_search(peer),
            other => self.core.command(other, &mut self.out, now),
        }
    }

    /// Closes the sockets of a port search. What waited for room in one of them leaves from the lane's own socket.
    fn close_search(&mut self, peer: PeerId) {
        if self.searches.close(peer, &self.poller) {
            self.blocked = false;
        }
    }

    /// Opens the next sockets of a port search, or closes all when its time is up.
    fn continue_search(&mut self, now: Time) {
        match self.searches.expired(now) {
            Some(peer) => self.close_search(peer),
            None => {
                self.searches.handle_timeout(&self.udp, &self.poller, &mut self.core, &self.shared.drops, now);
            }
        }
    }

    /// Returns true if the host's packets may be read: there is room for them, and they overtake none.
    fn may_read(&self) -> bool {
        self.reading != Reading::Nothing
            && !self.blocked
            && self.out.has_room()
            && !self.rings_first
            && self.may_overtake_nothing()
    }

    /// UDP → TUN, from the lane's own socket or the extra socket with this token. Returns peer and source of the last authentic packet.
    fn receive(&mut self, token: Option<u64>, now: Time) -> Option<(PeerId, SocketAddr)> {
        let mut heard = None;
        for _ in 0..RECEIVE_BUDGET {
            let socket = token.map_or(Some(&self.udp), |token| self.searches.socket(token));
            if socket.is_none_or(|socket| socket.recv(&mut self.received).is_err()) {
                return heard;
            }
            if self.congestion_marks && token.is_none() {
                self.core.socket_looked(self.received.bytes(), self.received.len() == RECEIVE_MESSAGES, clock());
            }
            let mut io = ThreadIo::new(&self.tun, &self.queues, &mut self.rings, &self.shared);
            for received in self.received.iter_mut() {
                io.meta = DatagramMeta { local: received.local, congestion: Ecn::of(received.ecn) };
                self.core.arrived_at(io.meta.local, io.meta.congestion);
                let (source, size) = (received.source, received.segment_size);
                self.core.count_datagrams(received.data.len().div_ceil(size.max(1)));
                let peer = self.core.inbound(source, received.data, size, &mut io, &mut self.out, now);
                heard = peer.map(|peer| (peer, source)).or(heard);
                if io.unread >= YIELD_AFTER {
                    io.unread = 0;
                    if self.busy_poll.may_yield(clock()) {
                        let (away, now) = yield_core();
                        self.busy_poll.yielded(away, now);
                    }
                }
            }
            for command in io.later {
                self.command(command, now);
            }
            if self.received.len() < RECEIVE_MESSAGES {
                return heard;
            }
        }
        heard
    }

    /// TUN → send batch. Messages leave whenever one is full; the rest leaves with the turn's last send, when the TUN queue is empty.
    fn read(&mut self, now: Time) -> std::io::Result<()> {
        for _ in 0..READ_BUDGET {
            match self.tun.read(&mut self.read) {
                Ok(length) => {
                    if self.congestion_marks {
                        self.core.tun_took(length, clock);
                        self.core.mark_read(&mut self.read[..length]);
                    }
                    self.route(length, now);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.core.tun_emptied();
                    if let Some(drain) = &mut self.drain {
                        drain.queue_empty();
                    }
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.out.is_worth_sending() {
                self.send(Flush::Full);
            }
            if self.blocked || !self.out.has_room() || !self.may_overtake_nothing() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends the batch, or as much of it as the socket takes.
    fn send(&mut self, flush: Flush) {
        let empty = Transmit {
            destination: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            contents: &[],
            segment_size: 0,
            ecn: 0,
        };
        let (mut blocked, mut full) = (false, None);
        while !blocked {
            let mut transmits = [empty; MAX_MESSAGES];
            let count = self.out.transmits(flush, &mut transmits);
            if count == 0 {
                break;
            }
            let core = &self.core;
            let (socket, token, count) = self.searches.route(&self.udp, &transmits[..count]);
            let sent = socket.send_from(&transmits[..count], |run| core.local_for(run.destination, run.contents));
            let gone = transmits.iter().take(sent.sent);
            self.core.count_datagrams(gone.map(|run| run.contents.len().div_ceil(run.segment_size.max(1))).sum());
            blocked = sent.blocked;
            full = token.filter(|_| blocked);
            // A probe that is longer than the interface's MTU has told what it was sent for: it is no drop.
            let probes = self.out.take_sized_probes(sent.too_long);
            self.shared.drops.add(DropReason::SendFailed, (sent.failed - probes) as u64);
            self.out.consume(sent.sent, sent.partial);
            if let Some(refused) = sent.refused {
                self.core.local_refused(refused);
            }
        }
        self.blocked = blocked;
        self.searches.set_full(full, &self.poller);
    }

    /// Uses another socket, if the agent offers one. Datagrams that the former socket received and that were not read yet are lost.
    fn take_socket(&mut self) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        shared.replacement.take(|socket| {
            self.poller.add(socket.as_fd(), TOKEN_UDP, Interest::READ)?;
            self.poller.remove(self.udp.as_fd());
            self.udp = socket;
            self.core.socket_replaced();
            self.blocked = false;
            self.interests.0 = Interest::READ;
            Ok(())
        })
    }

    fn set_interests(&mut self) {
        let udp = if self.blocked && !self.searches.is_full() { Interest::READ_WRITE } else { Interest::READ };
        let tun = if self.may_read() { Interest::READ } else { Interest::NONE };
        if (udp, tun) == self.interests {
            return;
        }
        self.interests = (udp, tun);
        // Both are registered and open, so the kernel has no reason to refuse. If it did, the next change would set them again.
        let _ = self.poller.modify(self.udp.as_fd(), TOKEN_UDP, udp);
        let _ = self.poller.modify(self.tun.as_fd(), TOKEN_TUN, tun);
    }

    /// Writes the lane core's own packets to the TUN. If the TUN refuses one, its receiver sends again and causes another.
    fn tell_host(&mut self) {
        let header = VnetHeader::NONE.encode();
        let header: &[u8] = if self.tun.offload().vnet_header { &header } else { &[] };
        while let Some(packet) = self.core.poll_host_packet() {
            if self.tun.write_vectored(&[IoSlice::new(header), IoSlice::new(&packet)]).is_err() {
                self.shared.drops.add(DropReason::TunWrite, 1);
            }
        }
    }

    /// Passes the lane core's outputs to the agent, until its queue is full. This is the only place that does, after all inputs of a turn.
    fn drain_outputs(&mut self) {
        while let Some(message) = self.core.poll_output() {
            if let Err(message) = self.queues.send(message) {
                return self.core.refused(message);
            }
        }
    }
}

/// Yields this core to programs that wait for it. Returns how long it was away, and the time after that.
fn yield_core() -> (Duration, Time) {
    let before = clock();
    std::thread::yield_now();
    let now = clock();
    (now.since(before), now)
}

fn clock() -> Time {
    Time::from_duration(boot_time().max(Duration::from_nanos(1)))
}
