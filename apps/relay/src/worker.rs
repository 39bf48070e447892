//! A worker: one thread of a relay that forwards datagrams.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use taut_base::Time;
use taut_event::{Events, Interest, Poller, Waker};
use taut_relay::{ClientAddress, ClientLane, Forward, NoForward, Reply, frame};
use taut_udp::{MAX_MESSAGES, ReceiveBatch, ReceivedRun, Transmit, UdpSocket};
use taut_wire::stun::{self, MAX_ANSWER_LEN};

use crate::outbox::Outbox;
use crate::shared::Shared;
use crate::system::{OsEntropy, clocks};

/// Number of batches that a worker receives before it handles STUN, changes and timers.
const BATCHES: u32 = 16;
/// Longest sleep of a worker, 1 s: the largest delay of a deadline of the server. All its deadlines are 10 s or more.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

const FRAMES: u64 = 0;
const STUN: u64 = 1;
const WOKEN: u64 = 2;

/// The sockets that one worker reads or answers from.
pub(crate) struct Sockets {
    /// Socket for frames and STUN, of this worker only.
    pub(crate) frames: UdpSocket,
    /// Socket for STUN only. The first worker reads it; all workers send from it.
    pub(crate) stun: UdpSocket,
}

pub(crate) struct Worker {
    number: usize,
    sockets: Sockets,
    waker: Waker,
    poller: Poller,
    batch: ReceiveBatch,
    forward: Forward,
    shared: Arc<Shared>,
    entropy: OsEntropy,
    replies: Vec<Reply>,
    /// Parts of the present run, each with its receiver.
    parts: Vec<Part>,
}

/// Consecutive datagrams of a run with the same receiver.
struct Part {
    start: usize,
    end: usize,
    place: ClientAddress,
}

impl Worker {
    pub(crate) fn new(
        number: usize,
        sockets: Sockets,
        waker: Waker,
        forward: Forward,
        shared: Arc<Shared>,
        entropy: OsEntropy,
    ) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(sockets.frames.as_fd(), FRAMES, Interest::READ)?;
        if number == 0 {
            poller.add(sockets.stun.as_fd(), STUN, Interest::READ)?;
        }
        poller.add(waker.as_fd(), WOKEN, Interest::READ)?;
        let batch = ReceiveBatch::new(MAX_MESSAGES)?;
        let (replies, parts) = (Vec::new(), Vec::with_capacity(64));
        Ok(Self { number, sockets, waker, poller, batch, forward, shared, entropy, replies, parts })
    }

    /// Runs until the relay is stopped. The first worker then tells all clients that the relay stops.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(4);
        while !self.shared.is_stopping() {
            let sleep = if self.number == 0 { self.until_deadline() } else { LONGEST_SLEEP };
            if self.poller.wait(&mut events, Some(sleep)).is_err() {
                return;
            }
            self.waker.drain();
            self.shared.take_changes(self.number, &mut self.forward);
            let ready = |token| events.iter().any(|event| event.token == token);
            if ready(FRAMES) {
                self.receive_frames();
            }
            if ready(STUN) {
                self.receive_stun();
            }
            if self.number == 0 {
                self.handle_timeout();
            }
            self.publish();
        }
        if self.number == 0 {
            self.with_server(taut_relay::Server::leave);
            self.reply();
        }
    }

    fn until_deadline(&self) -> Duration {
        let due = self.shared.ask(|server| server.poll_timeout());
        due.map_or(LONGEST_SLEEP, |due| due.since(clocks().now)).min(LONGEST_SLEEP)
    }

    fn handle_timeout(&mut self) {
        let now = clocks().now;
        if self.shared.ask(|server| server.poll_timeout()).is_some_and(|due| due <= now) {
            self.with_server(|server| server.handle_timeout(now));
            self.reply();
        }
    }

    fn with_server<R>(&mut self, act: impl FnOnce(&mut taut_relay::Server) -> R) -> R {
        self.shared.with_server(self.number, &mut self.forward, &mut self.replies, act)
    }

    /// Sends the server's replies.
    fn reply(&mut self) {
        for reply in self.replies.drain(..) {
            self.shared.send(&self.sockets.frames, reply.address, reply.as_bytes());
        }
    }

    fn receive_frames(&mut self) {
        let Self { number, sockets, batch, forward, shared, entropy, replies, parts, .. } = self;
        let mut turn = Turn { number: *number, sockets, forward, shared, entropy, replies, parts, now: Time::ZERO };
        for _ in 0..BATCHES {
            if sockets.frames.recv(batch).is_err() {
                return;
            }
            turn.now = clocks().now;
            let mut outbox = Outbox::new(&sockets.frames);
            for run in batch.iter_mut() {
                turn.handle(run, &mut outbox);
            }
            let failed = outbox.flush();
            if let Some(published) = turn.shared.published.get(turn.number) {
                published.not_sent.fetch_add(failed, Ordering::Relaxed);
            }
        }
    }

    fn receive_stun(&mut self) {
        let Sockets { frames, stun } = &self.sockets;
        if stun.recv(&mut self.batch).is_err() {
            return;
        }
        let Some(published) = self.shared.published.get(self.number) else { return };
        for mut run in self.batch.iter_mut() {
            let (source, local) = (run.source, run.local);
            for datagram in run.datagrams() {
                let other = local.map(|local| (local.address, frames.port()).into());
                let done = answer_stun(stun, frames, datagram, source, other, local);
                count_stun(published, done);
            }
        }
    }

    fn publish(&self) {
        if let Some(published) = self.shared.published.get(self.number) {
            published.show(&self.forward.counts());
            let dropped = u64::from(self.sockets.frames.dropped().unwrap_or(0));
            published.kernel.store(dropped, Ordering::Relaxed);
        }
    }
}

fn count_stun(published: &crate::shared::Published, answered: bool) {
    let counter = if answered { &published.stun } else { &published.bad_stun };
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Answers a STUN request, from the other port if the request asks for that. Returns false if the datagram is no request that gets an answer.
fn answer_stun(
    asked: &UdpSocket,
    other_port: &UdpSocket,
    datagram: &[u8],
    source: std::net::SocketAddr,
    other: Option<std::net::SocketAddr>,
    local: Option<taut_udp::Local>,
) -> bool {
    let Ok((answer, change)) = stun::answer(datagram, source, other) else { return false };
    let mut bytes = [0; MAX_ANSWER_LEN];
    let length = answer.write(&mut bytes);
    let contents = bytes.get(..length).unwrap_or_default();
    let socket = if change { other_port } else { asked };
    let sent = socket.send_from(&[Transmit { destination: source, contents, segment_size: 0, ecn: 0 }], |_| local);
    !sent.blocked && sent.failed == 0
}

/// The state for handling one batch, without the batch's own memory.
struct Turn<'w> {
    number: usize,
    sockets: &'w Sockets,
    forward: &'w mut Forward,
    shared: &'w Shared,
    entropy: &'w mut OsEntropy,
    replies: &'w mut Vec<Reply>,
    parts: &'w mut Vec<Part>,
    now: Time,
}

impl Turn<'_> {
    /// Forwards a run of datagrams from one sender: rewrites the numbers in place, and sends consecutive datagrams for one receiver as one run.
    fn handle<'a>(&mut self, run: ReceivedRun<'a>, outbox: &mut Outbox<'a>) {
        let place = ClientAddress::Udp(run.source);
        let ReceivedRun { source, local, data, segment_size, ecn } = run;
        let mut from = self.lane_at(&place);
        self.parts.clear();
        let mut start = 0;
        for datagram in data.chunks_mut(segment_size) {
            let end = start + datagram.len();
            if frame::data(datagram).is_some() {
                if from.is_none() {
                    from = self.lane_at(&place);
                }
                if let Some(to) = self.carry(from, place, datagram) {
                    self.note(start, end, to);
                }
            } else if stun::is_stun(datagram) {
                let other = local.map(|local| (local.address, self.sockets.stun.port()).into());
                let done = answer_stun(&self.sockets.frames, &self.sockets.stun, datagram, source, other, local);
                if let Some(published) = self.shared.published.get(self.number) {
                    count_stun(published, done);
                }
            } else {
                self.rare(place, datagram);
                from = self.lane_at(&place);
            }
            start = end;
        }
        let data: &'a [u8] = data;
        for part in self.parts.drain(..) {
            let contents = data.get(part.start..part.end).unwrap_or_default();
            match part.place {
                ClientAddress::Udp(destination) => outbox.push(Transmit { destination, contents, segment_size, ecn }),
                ClientAddress::Stream(number) => {
                    contents.chunks(segment_size).for_each(|frame| self.shared.streams.push(number, frame));
                }
            }
        }
    }

    /// Rewrites the number of a data frame, and returns its receiver.
    fn carry(&mut self, from: Option<ClientLane>, place: ClientAddress, datagram: &mut [u8]) -> Option<ClientAddress> {
        let Some(from) = from else {
            self.forward.count_unbound();
            self.rare(place, datagram);
            return None;
        };
        match self.forward.forward(from, datagram, self.now) {
            Ok(to) => Some(to),
            // Another worker may have opened the channel, and this worker may not have taken the change yet.
            Err(NoForward::UnknownId) if self.shared.take_changes(self.number, self.forward) => {
                self.forward.forward(from, datagram, self.now).ok()
            }
            Err(_) => None,
        }
    }

    fn lane_at(&mut self, place: &ClientAddress) -> Option<ClientLane> {
        let found = self.forward.lane_at(place);
        if found.is_none() && self.shared.take_changes(self.number, self.forward) {
            return self.forward.lane_at(place);
        }
        found
    }

    /// Adds a datagram to the last part, or begins another one.
    fn note(&mut self, start: usize, end: usize, place: ClientAddress) {
        match self.parts.last_mut() {
            Some(last) if last.end == start && last.place == place => last.end = end,
            _ => self.parts.push(Part { start, end, place }),
        }
    }

    /// Handles a frame that is not forwarded, under the lock.
    fn rare(&mut self, place: ClientAddress, datagram: &[u8]) {
        if !frame::is_frame(datagram) {
            self.forward.count_not_wireguard();
            return;
        }
        let (clocks, entropy) = (clocks(), &mut *self.entropy);
        let _refused_and_counted = self.shared.with_server(self.number, self.forward, self.replies, |server| {
            server.handle_frame(place, None, datagram, clocks, entropy)
        });
        for reply in self.replies.drain(..) {
            self.shared.send(&self.sockets.frames, reply.address, reply.as_bytes());
        }
    }
}
