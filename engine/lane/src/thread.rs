//! The lane's thread: one epoll over command queue, socket and TUN.
//!
//! ```text
//! wait ─▶ commands ─▶ receive (UDP → TUN) ─▶ timers ─▶ read (TUN → UDP) ─▶ send ─▶ tell the keeper ─▶ wait
//! ```
//! Each turn has a budget, so that neither direction starves the other. While the socket is full, the TUN is not read (law 9).

use std::fmt;
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use taut_base::Time;
use taut_event::{Events, Interest, Poller, Waker, boot_time};
use taut_node::{FromLane, ToLane};
use taut_tun::Tun;
use taut_tunnel::Limits;
use taut_tunnel::cookie::Checker;
use taut_udp::{MAX_MESSAGES, ReceiveBatch, Transmit, UdpSocket};
use taut_wire::ecn::Ecn;
use taut_wire::merge::{MAX_RUN, Offloads, Run};
use taut_wire::split::MAX_SUPERPACKET;
use taut_wire::vnet;

use crate::batch::{Flush, SendBatch};
use crate::drops::{Drop, DropCounts};
use crate::heart::Heart;
use crate::locals::LocalTable;
use crate::ports::InboundPorts;
use crate::queue::LaneEnd;
use crate::replacement::Replacement;
use crate::tables::TrafficTable;

/// Messages per receive call: with GRO each holds up to 64 datagrams.
const RECEIVE_MESSAGES: usize = 8;
/// Receive calls per turn.
const RECEIVE_BUDGET: usize = 8;
/// Superpackets read per turn.
const READ_BUDGET: usize = 64;
/// What a lane's thread needs of stack: the merger and the arrays of a system call, with room to spare.
const STACK: usize = 256 * 1024;

/// How soon something for the keeper that found its queue full is said again.
const QUEUE_RETRY: Duration = Duration::from_millis(5);

const TOKEN_WAKER: u64 = 0;
const TOKEN_UDP: u64 = 1;
const TOKEN_TUN: u64 = 2;

/// What a lane is made of.
pub struct Config {
    /// Its TUN queue.
    pub tun: Tun,
    /// MTU of the TUN, in bytes.
    pub mtu: u16,
    /// Its socket.
    pub udp: UdpSocket,
    /// What handshake messages to this node are judged by.
    pub checker: Checker,
    /// WireGuard's time limits.
    pub limits: Limits,
    /// Its end of the queues.
    pub queues: LaneEnd,
    /// Woken by the keeper.
    pub waker: Waker,
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
    stop: AtomicBool,
    /// Set when the thread ended by itself: the TUN is gone.
    failed: AtomicBool,
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
        let mut worker = Worker::new(config, Arc::clone(&shared)).map_err(StartError)?;
        let thread = std::thread::Builder::new()
            .name(String::from("taut-lane-0"))
            .stack_size(STACK)
            .spawn(move || worker.run())
            .map_err(StartError)?;
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
    heart: Heart,
    out: SendBatch,
    tun: Tun,
    udp: UdpSocket,
    queues: LaneEnd,
    waker: Waker,
    poller: Poller,
    received: ReceiveBatch,
    read: Vec<u8>,
    shared: Arc<Shared>,
    /// The socket is full: what is in `out` waits, and the TUN is not read.
    blocked: bool,
    /// What the keeper's queue had no room for.
    held: Option<FromLane>,
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
        let mut heart = Heart::new(
            config.limits,
            config.mtu,
            config.checker,
            granted.vnet_header,
            offloads,
            Arc::clone(&shared.drops),
            Arc::clone(&shared.traffic),
        );
        heart.share_locals(Arc::clone(&shared.locals));
        Ok(Self {
            heart,
            out: SendBatch::new(),
            tun: config.tun,
            udp: config.udp,
            queues: config.queues,
            waker: config.waker,
            poller,
            received: ReceiveBatch::new(RECEIVE_MESSAGES)?,
            read: vec![0; vnet::LEN + MAX_SUPERPACKET],
            shared,
            blocked: false,
            held: None,
        })
    }

    fn run(&mut self) {
        let mut events = Events::with_capacity(4);
        while !self.shared.stop.load(Ordering::Acquire) {
            let now = clock();
            let retry = self.held.as_ref().map(|_| now + QUEUE_RETRY);
            let timeout = self.heart.poll_timeout().into_iter().chain(retry).min().map(|due| due.since(now));
            if self.poller.wait(&mut events, timeout).is_err() {
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

    /// One turn. An error means that the TUN is gone.
    fn turn(&mut self, events: &Events) -> io::Result<()> {
        let now = clock();
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
                _ => tun_readable |= event.readable,
            }
        }
        while let Some(command) = self.queues.command() {
            self.heart.command(command, &mut self.out, now);
            if !self.out.has_room() {
                self.send(Flush::All);
            }
        }
        if udp_readable {
            self.receive(now);
        }
        self.heart.handle_timeout(&mut self.out, now);
        if tun_readable && !self.blocked {
            self.read(now)?;
        }
        self.send(Flush::All);
        while !self.blocked && self.heart.send_backlog(&mut self.out, now) {
            self.send(Flush::All);
        }
        self.tell_keeper();
        Ok(())
    }

    /// UDP → TUN.
    fn receive(&mut self, now: Time) {
        for _ in 0..RECEIVE_BUDGET {
            if self.udp.recv(&mut self.received).is_err() {
                return;
            }
            let mut ports = Ports { tun: &self.tun, queues: &self.queues, vnet_header: self.tun.offload().vnet_header };
            for received in self.received.iter_mut() {
                self.heart.arrived_at(received.local, Ecn::of(received.ecn));
                self.heart.inbound(
                    received.source,
                    received.data,
                    received.segment_size,
                    &mut ports,
                    &mut self.out,
                    now,
                );
            }
            if self.received.len() < RECEIVE_MESSAGES {
                return;
            }
        }
    }

    /// TUN → send batch, and out whenever a message is full; what is left goes with the turn's last send, when the TUN is drained.
    fn read(&mut self, now: Time) -> io::Result<()> {
        for _ in 0..READ_BUDGET {
            match self.tun.read(&mut self.read) {
                Ok(length) => self.heart.outbound(&self.read[..length], &mut self.out, now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.out.is_worth_sending() {
                self.send(Flush::Full);
            }
            if self.blocked || !self.out.has_room() {
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
        let mut blocked = false;
        while !blocked {
            let mut transmits = [nowhere; MAX_MESSAGES];
            let count = self.out.transmits(flush, &mut transmits);
            if count == 0 {
                break;
            }
            let heart = &self.heart;
            let sent = self.udp.send_from(&transmits[..count], |run| heart.local_for(run.destination, run.contents));
            blocked = sent.blocked;
            self.shared.drops.add(Drop::SendFailed, sent.failed as u64);
            self.out.consume(sent.sent, sent.partial);
            if let Some(refused) = sent.refused {
                self.heart.local_refused(refused);
            }
        }
        if blocked != self.blocked {
            self.blocked = blocked;
            self.set_interests();
        }
    }

    /// Goes on with another socket, if the keeper has one for us. What came in by the former one and was not read yet is lost.
    fn take_socket(&mut self) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        shared.replacement.take(|socket| {
            self.poller.add(socket.as_fd(), TOKEN_UDP, Interest::READ)?;
            self.poller.remove(self.udp.as_fd());
            self.udp = socket;
            if std::mem::take(&mut self.blocked) {
                self.set_interests();
            }
            Ok(())
        })
    }

    fn set_interests(&self) {
        let (udp, tun) =
            if self.blocked { (Interest::READ_WRITE, Interest::NONE) } else { (Interest::READ, Interest::READ) };
        // Both are registered and open, so the kernel has no reason to refuse; if it did, the next change would set them again.
        let _ = self.poller.modify(self.udp.as_fd(), TOKEN_UDP, udp);
        let _ = self.poller.modify(self.tun.as_fd(), TOKEN_TUN, tun);
    }

    fn tell_keeper(&mut self) {
        while let Some(event) = self.held.take().or_else(|| self.heart.poll_event()) {
            if let Err(event) = self.queues.say(event) {
                self.held = Some(event);
                break;
            }
        }
        while let Some(handshake) = self.heart.poll_handshake() {
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
}

impl InboundPorts for Ports<'_> {
    fn write(&mut self, run: Run<'_>) -> bool {
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

    fn next_command(&mut self) -> Option<ToLane> {
        self.queues.command()
    }
}

fn clock() -> Time {
    Time::from_duration(boot_time().max(Duration::from_nanos(1)))
}
