//! Sockets beside the lane's own: many for a moment, to look for a peer that no other way leads to (protocol.md 5.7), and then perhaps one for as long as
//! that is the way.
//!
//! ```text
//! ToLane::OpenSearch ─▶ digging ─── an authentic packet of the peer from there, on one of them ──▶ that one is kept, the others are closed
//!                   │ time is up                                                              │ ToLane::CloseSearch, or the next OpenSearch for this peer
//!                   └──▶ all are closed                                                       └──▶ it is closed
//! ```
//! A NAT that gives each destination another port gives it to each socket, too: what one of them opened is open for that one alone. So while one is kept, all that
//! goes to this place goes by it: probes, handshakes, data. Ways know nothing of sockets, as no other socket leads there. A packet that is authentic is no proof
//! of a way (law 3): the agent probes it, and then data takes it.
//!
//! Sockets are opened some at a time, so that packets do not wait for them. Where the kernel refuses one, those that are there must do. With none of this
//! going on, all of it costs one look at an empty list per system call.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use taut_base::{LaneId, PeerId, SessionId, Time};
use taut_event::{Interest, Poller};
use taut_node::ToLane;
use taut_path::PortSearch;
use taut_udp::{Transmit, UdpSocket};
use taut_wire::control::ControlMessage;

use super::Worker;
use crate::batch::{Flush, SendBatch};
use crate::drops::Drop;

/// The first token of these sockets; each has one that none had before.
pub(super) const TOKENS: u64 = 16;

/// Sockets that are opened at a time: some 20 system calls of a microsecond each.
const AT_A_TIME: u16 = 16;

/// Between those: 256 are open within a sixth of a second, and a small router's table does not fill at once.
const APART: Duration = Duration::from_millis(10);

/// Sockets that are kept at most. Who has more peers that are found by chance only reaches the others by the relay.
const KEPT: usize = 64;

/// The id of the probes: nobody waits for their answers, because none comes before the other end has found one of our ports, and then it probes us.
const NOBODYS: u64 = 0;

/// The sockets.
#[derive(Default)]
pub(super) struct PortSearches {
    digging: Option<Digging>,
    kept: Vec<Kept>,
    /// Tokens that were given so far.
    given: u64,
    /// The one whose buffer is full.
    full: Option<u64>,
}

/// A search.
struct Digging {
    peer: PeerId,
    /// The probes' session.
    session: SessionId,
    /// Where the peer is.
    to: SocketAddr,
    /// Those that are open, by their tokens.
    sockets: Vec<(u64, UdpSocket)>,
    /// Still to be opened, and when.
    left: u16,
    next: Time,
    /// When all are closed.
    until: Time,
}

/// The socket that a search ended with.
struct Kept {
    peer: PeerId,
    to: SocketAddr,
    token: u64,
    socket: UdpSocket,
}

impl PortSearches {
    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.digging.is_none() && self.kept.is_empty()
    }

    /// Whether it is the buffer of one of these that is full.
    pub(super) fn is_full(&self) -> bool {
        self.full.is_some()
    }

    /// When there is something to do.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let digging = self.digging.as_ref()?;
        Some(if digging.left > 0 { digging.next.min(digging.until) } else { digging.until })
    }

    /// The socket that the first of these leave by, if it is not the lane's own, and how many do.
    pub(super) fn route<'a>(
        &'a self,
        own: &'a UdpSocket,
        transmits: &[Transmit<'_>],
    ) -> (&'a UdpSocket, Option<u64>, usize) {
        if self.kept.is_empty() {
            return (own, None, transmits.len());
        }
        let by = |transmit: &Transmit<'_>| self.kept.iter().find(|kept| kept.to == transmit.destination);
        let first = transmits.first().and_then(by);
        let token = first.map(|kept| kept.token);
        let count = transmits.iter().take_while(|transmit| by(transmit).map(|kept| kept.token) == token).count();
        (first.map_or(own, |kept| &kept.socket), token, count)
    }

    /// The socket of this token.
    pub(super) fn socket(&self, token: u64) -> Option<&UdpSocket> {
        let kept = self.kept.iter().find(|kept| kept.token == token).map(|kept| &kept.socket);
        let digging = self.digging.iter().flat_map(|digging| &digging.sockets);
        kept.or_else(|| digging.clone().find(|(own, _)| *own == token).map(|(_, socket)| socket))
    }

    /// The buffer of one is full, or that of none: the poller looks for room there.
    pub(super) fn set_full(&mut self, token: Option<u64>, poller: &Poller) {
        if token == self.full {
            return;
        }
        for (token, interest) in [(self.full, Interest::READ), (token, Interest::READ_WRITE)] {
            if let Some((token, socket)) = token.and_then(|token| Some((token, self.socket(token)?))) {
                // It is registered and open, so the kernel has no reason to refuse.
                let _ = poller.modify(socket.as_fd(), token, interest);
            }
        }
        self.full = token;
    }

    /// An authentic packet of a peer came from there by this socket: it stays, and the others are closed.
    fn found(&mut self, token: u64, peer: PeerId, source: SocketAddr, poller: &Poller) {
        let here = |digging: &mut Digging| {
            let known = digging.sockets.iter().any(|(own, _)| *own == token);
            known && digging.peer == peer && digging.to == source
        };
        let Some(digging) = self.digging.take_if(here) else { return };
        for (own, socket) in digging.sockets {
            if own == token {
                self.kept.push(Kept { peer, to: digging.to, token, socket });
            } else {
                poller.remove(socket.as_fd());
            }
        }
    }

    /// Closes all that was opened for a peer.
    fn fill(&mut self, peer: PeerId, poller: &Poller) {
        if let Some(digging) = self.digging.take_if(|digging| digging.peer == peer) {
            digging.sockets.iter().for_each(|(_, socket)| poller.remove(socket.as_fd()));
        }
        let full = &mut self.full;
        self.kept.retain(|kept| {
            let stays = kept.peer != peer;
            if !stays {
                poller.remove(kept.socket.as_fd());
                full.take_if(|token| *token == kept.token);
            }
            stays
        });
    }
}

impl Worker {
    /// Carries out what the agent says of these sockets; gives back what is not about them.
    pub(super) fn port_search(&mut self, command: ToLane, now: Time) -> Option<ToLane> {
        match command {
            ToLane::OpenSearch { peer, session, search } => self.begin_search(peer, session, search, now),
            ToLane::CloseSearch(peer) => self.fill(peer),
            other => return Some(other),
        }
        None
    }

    fn begin_search(&mut self, peer: PeerId, session: SessionId, search: PortSearch, now: Time) {
        self.fill(peer);
        let PortSearch { to, sockets: left, lasts } = search;
        if self.digs.digging.is_none() && self.digs.kept.len() < KEPT {
            let sockets = Vec::with_capacity(left.into());
            self.digs.digging = Some(Digging { peer, session, to, sockets, left, next: now, until: now + lasts });
        }
    }

    fn fill(&mut self, peer: PeerId) {
        let was_full = self.digs.full.is_some();
        self.digs.fill(peer, &self.poller);
        // What waited for its room goes by the lane's own.
        self.blocked &= !was_full || self.digs.full.is_some();
    }

    /// Does what is due: opens some more, or closes all.
    pub(super) fn go_on_digging(&mut self, now: Time) {
        let Some(digging) = &mut self.digs.digging else { return };
        if now >= digging.until {
            let peer = digging.peer;
            // One that is kept for this peer was closed when this began.
            return self.fill(peer);
        }
        if digging.left == 0 || now < digging.next {
            return;
        }
        digging.next = now + APART;
        let (peer, session, to) = (digging.peer, digging.session, digging.to);
        let mut probes = SendBatch::new();
        for _ in 0..AT_A_TIME.min(digging.left) {
            digging.left -= 1;
            self.digs.given += 1;
            let token = TOKENS + self.digs.given;
            let opened =
                self.udp.another().ok().filter(|socket| self.poller.add(socket.as_fd(), token, Interest::READ).is_ok());
            let Some(socket) = opened else {
                // No more descriptors: with fewer sockets the odds are smaller.
                digging.left = 0;
                break;
            };
            let (way, probe) = (Some(to.into()), ControlMessage::Probe { id: NOBODYS });
            self.core.send_control(peer, session, LaneId::FIRST, way, probe, &mut probes);
            let nothing = Transmit { destination: to, contents: &[], segment_size: 0, ecn: 0 };
            let mut transmits = [nothing];
            let count = probes.transmits(Flush::All, &mut transmits);
            let sent = socket.send(&transmits[..count]);
            self.shared.drops.add(Drop::SendFailed, sent.failed as u64);
            probes.consume(count, 0);
            digging.sockets.push((token, socket));
        }
    }

    /// What came to one of them is read as what comes to the lane's own.
    pub(super) fn receive_dug(&mut self, token: u64, now: Time) {
        if let Some((peer, source)) = self.receive(Some(token), now) {
            self.digs.found(token, peer, source, &self.poller);
        }
    }
}
