//! Extra sockets for a port search: many for a short time, to reach a peer behind a hard NAT (protocol.md 5.7), and then perhaps one of them for as long as
//! it is the path.
//!
//! ```text
//! ToLane::OpenSearch ─▶ searching ─── an authentic packet of the peer from its endpoint, on one socket ──▶ that socket is kept, the others are closed
//!                          │ time is up                                                │ ToLane::CloseSearch, or the next OpenSearch for this peer
//!                          └──▶ all are closed                                         └──▶ it is closed
//! ```
//! A NAT that maps each destination to another port does so for each socket, too: the mapping that one socket opened is open for that socket only. So while
//! a socket is kept, everything to that endpoint leaves from it: probes, handshakes, data. Paths need not name sockets, because no other socket reaches that
//! endpoint. An authentic packet does not prove a path (law 3): the agent probes it, and then data takes it.
//!
//! Sockets are opened a few at a time, so that packets do not wait. If the kernel refuses one, the search goes on with those that are open. Without a search,
//! all of this costs one look at an empty list per system call.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use taut_base::{LaneId, PeerId, SessionId, Time};
use taut_event::{Interest, Poller};
use taut_path::PortSearch;
use taut_udp::{Transmit, UdpSocket};
use taut_wire::control::ControlMessage;

use crate::batch::{Flush, SendBatch};
use crate::drops::{DropCounts, DropReason};
use crate::lane_core::LaneCore;

/// The first poller token of these sockets. Each socket has a token that no socket had before.
pub(super) const TOKENS: u64 = 16;

/// Sockets that are opened at a time, 16: some 20 system calls of a microsecond each.
const AT_A_TIME: u16 = 16;

/// Time between two such steps, 10 ms: 256 sockets are open within a sixth of a second, and the table of a small router does not fill at once.
const STEP: Duration = Duration::from_millis(10);

/// Sockets that are kept at most, 64. A node with more peers that only a port search reaches reaches the others through the relay.
const KEPT: usize = 64;

/// The id of the probes. Their answers are not waited for: none comes before the peer has found one of our ports, and then the peer probes us.
const UNANSWERED: u64 = 0;

/// The port search of one lane, and the sockets that earlier searches ended with.
#[derive(Default)]
pub(super) struct PortSearches {
    active: Option<ActiveSearch>,
    kept: Vec<KeptSocket>,
    /// Tokens that were given away so far.
    tokens_given: u64,
    /// The token of the socket whose send buffer is full.
    full: Option<u64>,
}

/// A search that is going on.
struct ActiveSearch {
    peer: PeerId,
    /// The session of the probes.
    session: SessionId,
    /// The endpoint of the peer.
    to: SocketAddr,
    /// The open sockets, by token.
    sockets: Vec<(u64, UdpSocket)>,
    /// Sockets that are still to be opened, and when the next ones are.
    left: u16,
    next: Time,
    /// When all sockets are closed.
    until: Time,
}

/// The socket that a search ended with.
struct KeptSocket {
    peer: PeerId,
    to: SocketAddr,
    token: u64,
    socket: UdpSocket,
}

impl PortSearches {
    /// Returns true if no extra socket is open and none will be.
    pub(super) fn is_empty(&self) -> bool {
        self.active.is_none() && self.kept.is_empty()
    }

    /// Returns true if the send buffer of an extra socket is full.
    pub(super) fn is_full(&self) -> bool {
        self.full.is_some()
    }

    /// Returns when [`Self::handle_timeout`] is due.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let search = self.active.as_ref()?;
        Some(if search.left > 0 { search.next.min(search.until) } else { search.until })
    }

    /// Returns the socket that the first of these transmits leaves from, its token if it is an extra socket, and how many transmits leave from it.
    pub(super) fn route<'a>(
        &'a self,
        own: &'a UdpSocket,
        transmits: &[Transmit<'_>],
    ) -> (&'a UdpSocket, Option<u64>, usize) {
        if self.kept.is_empty() {
            return (own, None, transmits.len());
        }
        let kept_for = |transmit: &Transmit<'_>| self.kept.iter().find(|kept| kept.to == transmit.destination);
        let first = transmits.first().and_then(kept_for);
        let token = first.map(|kept| kept.token);
        let count = transmits.iter().take_while(|transmit| kept_for(transmit).map(|kept| kept.token) == token).count();
        (first.map_or(own, |kept| &kept.socket), token, count)
    }

    /// Returns the socket with this token.
    pub(super) fn socket(&self, token: u64) -> Option<&UdpSocket> {
        let kept = self.kept.iter().find(|kept| kept.token == token).map(|kept| &kept.socket);
        let mut searching = self.active.iter().flat_map(|search| &search.sockets);
        kept.or_else(|| searching.find(|(own, _)| *own == token).map(|(_, socket)| socket))
    }

    /// Has the poller look for room at the socket with this token, whose send buffer is full, and at no other extra socket.
    pub(super) fn set_full(&mut self, token: Option<u64>, poller: &Poller) {
        if token == self.full {
            return;
        }
        for (token, interest) in [(self.full, Interest::READ), (token, Interest::READ_WRITE)] {
            if let Some((token, socket)) = token.and_then(|token| Some((token, self.socket(token)?))) {
                // The socket is registered and open, so the kernel has no reason to refuse.
                let _ = poller.modify(socket.as_fd(), token, interest);
            }
        }
        self.full = token;
    }

    /// Notes that an authentic packet of `peer` came from `source` on the socket with this token. If it is what the search looks for, that socket is kept
    /// and the others are closed.
    pub(super) fn received(&mut self, token: u64, peer: PeerId, source: SocketAddr, poller: &Poller) {
        let is_found = |search: &mut ActiveSearch| {
            let known = search.sockets.iter().any(|(own, _)| *own == token);
            known && search.peer == peer && search.to == source
        };
        let Some(search) = self.active.take_if(is_found) else { return };
        for (own, socket) in search.sockets {
            if own == token {
                self.kept.push(KeptSocket { peer, to: search.to, token, socket });
            } else {
                poller.remove(socket.as_fd());
            }
        }
    }

    /// Starts a search, after [`Self::close`] for this peer. Nothing happens while another search goes on or [`KEPT`] sockets are kept.
    pub(super) fn open(&mut self, peer: PeerId, session: SessionId, search: PortSearch, now: Time) {
        if self.active.is_none() && self.kept.len() < KEPT {
            let PortSearch { to, sockets: left, lasts } = search;
            let sockets = Vec::with_capacity(left.into());
            self.active = Some(ActiveSearch { peer, session, to, sockets, left, next: now, until: now + lasts });
        }
    }

    /// Closes all sockets that were opened for a peer. Returns true if the socket whose send buffer was full is among them.
    pub(super) fn close(&mut self, peer: PeerId, poller: &Poller) -> bool {
        let was_full = self.full.is_some();
        if let Some(search) = self.active.take_if(|search| search.peer == peer) {
            search.sockets.iter().for_each(|(_, socket)| poller.remove(socket.as_fd()));
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
        was_full && self.full.is_none()
    }

    /// Returns the peer of a search whose time is up, to be [closed](Self::close). No socket is kept for this peer: it was closed when the search began.
    pub(super) fn expired(&self, now: Time) -> Option<PeerId> {
        self.active.as_ref().filter(|search| now >= search.until).map(|search| search.peer)
    }

    /// Opens the next sockets of a search, if they are due, each like the lane's own socket and with a probe to the peer.
    pub(super) fn handle_timeout(
        &mut self,
        own: &UdpSocket,
        poller: &Poller,
        core: &mut LaneCore,
        drops: &DropCounts,
        now: Time,
    ) {
        let Some(search) = &mut self.active else { return };
        if search.left == 0 || now < search.next {
            return;
        }
        search.next = now + STEP;
        let mut probes = SendBatch::new();
        for _ in 0..AT_A_TIME.min(search.left) {
            search.left -= 1;
            self.tokens_given += 1;
            let token = TOKENS + self.tokens_given;
            let opened = own.another().ok().filter(|socket| poller.add(socket.as_fd(), token, Interest::READ).is_ok());
            let Some(socket) = opened else {
                // No file descriptors are left: the search goes on with fewer sockets and lower odds.
                search.left = 0;
                break;
            };
            let (way, probe) = (Some(search.to.into()), ControlMessage::Probe { id: UNANSWERED });
            core.send_control(search.peer, search.session, LaneId::FIRST, way, probe, &mut probes);
            let empty = Transmit { destination: search.to, contents: &[], segment_size: 0, ecn: 0 };
            let mut transmits = [empty];
            let count = probes.transmits(Flush::All, &mut transmits);
            let sent = socket.send(&transmits[..count]);
            drops.add(DropReason::SendFailed, sent.failed as u64);
            probes.consume(count, 0);
            search.sockets.push((token, socket));
        }
    }
}
