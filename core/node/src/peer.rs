//! What the node knows of one peer: its keys, its handshakes, its candidates.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use taut_base::{MAX_CANDIDATES, NodeId, PeerId, PublicKey, ReceiverIndex, RelayId, SessionId, Time};
use taut_path::{Candidates, Paths, View, Way};
use taut_tunnel::cookie::{Cookies, mac1};
use taut_tunnel::handshake::{Remote, SentInitiation, Timestamp};
use taut_tunnel::{Attempt, Bucket, Exporter, Limits, Retry, Role};
use taut_wire::control::Suite;
use taut_wire::wireguard::CookieReply;

use crate::answer::{Answer, REPEAT};
use crate::contract::{HandshakeMessage, source_of};
use crate::extra_lanes::ExtraLanes;
use crate::talk::Talk;

/// Sessions of one peer that a lane holds at most, and one on its way to it.
pub(crate) const HELD: usize = 4;

/// Initiations of one peer whose response may still come. Later ones do not spoil earlier ones: on a round trip of seconds the response to the
/// first is on its way when the second leaves.
const WAITING: usize = 3;

/// A peer, seen from the agent.
pub(crate) struct Peer {
    pub(crate) id: PeerId,
    pub(crate) node: NodeId,
    pub(crate) name: String,
    pub(crate) key: PublicKey,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) remote: Remote,
    pub(crate) candidates: Candidates,
    pub(crate) attempt: Option<Attempt>,
    /// The beginning of the last attempt.
    pub(crate) asked: Time,
    /// The last attempt got no answer.
    pub(crate) is_silent: bool,
    /// When a packet for it last waited for a session, or flowed.
    pub(crate) wanted: Option<Time>,
    waiting: VecDeque<(Time, SentInitiation)>,
    /// The bytes of the newest waiting initiation.
    message: Option<HandshakeMessage>,
    /// Initiations of the peer that may still be accepted.
    pub(crate) accepted: Bucket,
    /// Cookies that the peer asked us to show.
    cookies: Cookies,
    /// Where the newest initiation went once more, because a cookie came from there.
    shown: Vec<Way>,
    /// The latest stamp of an initiation of the peer; an earlier or equal one is a replay.
    pub(crate) heard: Timestamp,
    /// The latest stamp of an initiation of ours.
    pub(crate) stamped: Timestamp,
    /// What we last answered to an initiation, until the peer uses that session; for a moment there is no need for one of ours.
    pub(crate) answer: Option<Answer>,
    /// The sessions that were used and are not retired, the one in use last.
    pub(crate) sessions: Vec<(SessionId, Time)>,
    /// Answered, not yet confirmed.
    pub(crate) unconfirmed: Option<(SessionId, Time)>,
    pub(crate) established: u64,
    /// When the newest session was made, though it may be gone.
    pub(crate) last_handshake: Option<Time>,
    /// Stock WireGuard: its retries, one endpoint, none of our extensions (law 1).
    pub(crate) native: bool,
    /// Interval of unconditional keepalives.
    pub(crate) keepalive: Option<Duration>,
    /// Bytes of handshake messages received from it and sent to it.
    pub(crate) handshake_bytes: (u64, u64),
    /// What is asked on the control pair of the newest session.
    pub(crate) talk: Option<Talk>,
    /// The suite that both ends of a session use for data, as far as they agreed on one.
    agreed: Vec<(SessionId, Suite)>,
    /// How it is reached; a native peer moves by itself.
    pub(crate) paths: Option<Paths>,
    /// The way that data takes, as the paths chose it.
    pub(crate) way: Option<Way>,
    /// By which relays it is reached, best first.
    pub(crate) relayed: Vec<Way>,
    /// The relays that it is bound to, as the map says.
    pub(crate) relays: Vec<RelayId>,
    /// How long a packet takes to it and back, on the way in use.
    pub(crate) round_trip: Option<Duration>,
    /// Its lanes beyond the first.
    pub(crate) further: ExtraLanes,
    /// What further lanes of its sessions are made of.
    pub(crate) made: Vec<Made>,
}

/// A session between Taut nodes: where its lanes come from, and which there are.
pub(crate) struct Made {
    pub(crate) session: SessionId,
    pub(crate) role: Role,
    pub(crate) exporter: Exporter,
    pub(crate) born: Time,
    /// Lanes that were given away, each once (protocol.md 1.7).
    pub(crate) lanes: u8,
}

impl Peer {
    /// A peer of which nothing is known but its key.
    pub(crate) fn new(id: PeerId, remote: Remote) -> Self {
        Self {
            id,
            node: NodeId(0),
            name: String::new(),
            key: remote.public(),
            addresses: Vec::new(),
            remote,
            candidates: Candidates::default(),
            attempt: None,
            asked: Time::ZERO,
            is_silent: false,
            wanted: None,
            waiting: VecDeque::new(),
            message: None,
            accepted: Bucket::default(),
            cookies: Cookies::default(),
            shown: Vec::new(),
            heard: Timestamp::default(),
            stamped: Timestamp::default(),
            answer: None,
            sessions: Vec::new(),
            unconfirmed: None,
            established: 0,
            last_handshake: None,
            native: false,
            keepalive: None,
            handshake_bytes: (0, 0),
            talk: None,
            agreed: Vec::new(),
            paths: None,
            way: None,
            relayed: Vec::new(),
            relays: Vec::new(),
            round_trip: None,
            further: ExtraLanes::default(),
            made: Vec::new(),
        }
    }

    /// How it likes to be asked for a handshake again.
    pub(crate) fn retry(&self) -> Retry {
        if self.native { Retry::Stock } else { Retry::Taut }
    }

    /// An authentic handshake message came from `source`, and is answered with `answer` bytes. Stock WireGuard goes by any such message; a Taut
    /// peer moves by a proof of both sides only.
    pub(crate) fn heard_from(&mut self, source: Way, message: usize, answer: usize) {
        self.handshake_bytes.0 += message as u64;
        self.handshake_bytes.1 += answer as u64;
        if self.native {
            self.is_at(source);
        }
    }

    /// It was proven to be reached this way.
    pub(crate) fn is_at(&mut self, way: Way) {
        // What a relay carries is no candidate.
        if let Some(endpoint) = way.direct() {
            self.candidates.set_proven(endpoint);
        }
    }

    /// Forgets its sessions and the handshakes under way. What it said last stays, so that nothing old is taken for new.
    pub(crate) fn start_over(&mut self) {
        (self.attempt, self.message, self.answer, self.unconfirmed) = (None, None, None, None);
        self.talk = None;
        self.agreed.clear();
        self.further.forget();
        self.made.clear();
        self.waiting.clear();
        self.sessions.clear();
        // Cookies are bound to the port that we had.
        self.cookies = Cookies::default();
    }

    /// The newest initiation once more, while it is young enough to be answered with the same response. A new one would make another session
    /// on the other side, and replace the one that the response on its way to us carries.
    pub(crate) fn repeatable(&self, now: Time) -> Option<HandshakeMessage> {
        let (sent, _) = self.waiting.back()?;
        self.message.filter(|_| now < *sent + REPEAT)
    }

    /// Remembers an initiation that is sent. Returns the index of one that is not waited for any more.
    pub(crate) fn wait_for(
        &mut self,
        initiation: SentInitiation,
        message: HandshakeMessage,
        now: Time,
    ) -> Option<ReceiverIndex> {
        self.waiting.push_back((now, initiation));
        self.message = Some(message);
        self.shown.clear();
        if self.waiting.len() <= WAITING {
            return None;
        }
        self.waiting.pop_front().map(|(_, initiation)| initiation.local())
    }

    /// A copy of a message for one path, with mac2 if the peer asked for it there (protocol.md 2.1, 2.3).
    pub(crate) fn copy_for(&self, way: Way, mut message: HandshakeMessage, now: Time) -> HandshakeMessage {
        self.cookies.write_mac2(source_of(way), message.as_bytes_mut(), now);
        message
    }

    /// The peer is busy and answers the message that it names with a cookie, which the next copy or message to `source` shows. A cookie for anything
    /// but our last initiation or response changes nothing, and none moves an endpoint (fault B8). Returns the copy that goes there at once, if any.
    pub(crate) fn take_cookie(&mut self, source: Way, reply: &CookieReply<'_>, now: Time) -> Option<HandshakeMessage> {
        let sent = [self.message.as_ref(), self.answer.as_ref().map(Answer::response)];
        let message = sent.into_iter().flatten().find(|message| message.sender() == Some(reply.receiver))?;
        let taken = self.cookies.take(&self.remote, mac1(message.as_bytes())?, source_of(source), reply, now);
        if taken { self.copy_at_once(source, reply.receiver, now) } else { None }
    }

    /// The initiation `index` with the cookie that just came from `source`, instead of the try that is due later (protocol.md 2.1). Only while it is
    /// asked for, only to where it went before, and only once there: who can read it can make cookies for it, and must not make us send.
    fn copy_at_once(&mut self, source: Way, index: u32, now: Time) -> Option<HandshakeMessage> {
        let message = self.repeatable(now).filter(|message| message.sender() == Some(index))?;
        let asked = self.attempt.is_some() && self.handshake_ways().any(|way| way == source);
        let again = self.shown.contains(&source) || self.shown.len() >= MAX_CANDIDATES;
        // Stock WireGuard keeps the cookie for its next try (paper, section 6.6), and so do we with it (protocol.md 2.2).
        if self.native || !asked || again {
            return None;
        }
        self.shown.push(source);
        Some(self.copy_for(source, message, now))
    }

    /// Which ways a handshake goes: by relays, which have the peer at once, and to all candidates (protocol.md 2.1).
    pub(crate) fn handshake_ways(&self) -> impl Iterator<Item = Way> + '_ {
        self.relayed.iter().copied().chain(self.candidates.for_handshake().map(Way::Direct))
    }

    /// The initiation that the peer names `index`.
    pub(crate) fn waiting_for(&self, index: ReceiverIndex) -> Option<&SentInitiation> {
        self.waiting.iter().map(|(_, initiation)| initiation).find(|initiation| initiation.local() == index)
    }

    /// When the initiation `index` was first sent.
    pub(crate) fn sent_at(&self, index: ReceiverIndex) -> Option<Time> {
        self.waiting.iter().find(|(_, initiation)| initiation.local() == index).map(|(sent, _)| *sent)
    }

    /// The initiation `index` became a session. Earlier ones are of no use then; a later one is, because the peer will know only that.
    pub(crate) fn finished(&mut self, index: ReceiverIndex) -> Vec<ReceiverIndex> {
        let Some(place) = self.waiting.iter().position(|(_, initiation)| initiation.local() == index) else {
            return Vec::new();
        };
        let mut earlier: Vec<_> = self.waiting.drain(..=place).map(|(_, initiation)| initiation.local()).collect();
        earlier.retain(|other| *other != index);
        earlier
    }

    /// Initiations that waited for longer than a stock retry interval after the attempt ended are given up.
    pub(crate) fn expire_waiting(&mut self, limits: &Limits, now: Time) -> Vec<ReceiverIndex> {
        if self.attempt.is_some() {
            return Vec::new();
        }
        let mut expired = Vec::new();
        while let Some((_, initiation)) = self.waiting.pop_front_if(|(sent, _)| now >= *sent + limits.retry) {
            expired.push(initiation.local());
        }
        expired
    }

    /// When something is due for this peer.
    pub(crate) fn poll_timeout(&self, limits: &Limits, now: Time) -> Option<Time> {
        let handshake = match &self.attempt {
            Some(attempt) => Some(attempt.poll_timeout()),
            None => self.waiting.front().map(|(sent, _)| *sent + limits.retry),
        };
        // Further lanes are asked about as long as there is a session to do it in.
        let talk = self.talk.as_ref().and_then(Talk::poll_timeout);
        let further = self.talk.as_ref().and_then(|_| self.further.poll_timeout());
        let paths = self.paths.as_ref().and_then(|paths| paths.poll_timeout(now));
        [handshake, talk, further, paths].into_iter().flatten().min()
    }

    /// Since when the newest session is there.
    pub(crate) fn since(&self) -> Option<Time> {
        self.sessions.last().map(|(_, since)| *since)
    }

    /// A session is in use.
    pub(crate) fn begin(&mut self, id: SessionId, since: Time) {
        self.sessions.push((id, since));
        self.established += 1;
        self.last_handshake = Some(since);
    }

    /// Of two sessions whose handshakes crossed, the earlier one is in use after all. Returns our part in it; `None` if that is nothing new.
    pub(crate) fn prefer(&mut self, id: SessionId) -> Option<Role> {
        let place = self.sessions.iter().position(|(session, _)| *session == id)?;
        if place + 1 == self.sessions.len() {
            return None;
        }
        let session = self.sessions.remove(place);
        self.sessions.push(session);
        self.made.iter().find(|made| made.session == id).map(|made| made.role)
    }

    /// What data is sealed with in a session, once both ends know it of each other.
    pub(crate) fn agree(&mut self, id: SessionId, suite: Suite) {
        self.agreed.retain(|(session, _)| *session != id);
        if self.agreed.len() == HELD {
            self.agreed.remove(0);
        }
        self.agreed.push((id, suite));
    }

    /// A session is gone from the first lane, and soon will be from the others: they have it for as long.
    pub(crate) fn end(&mut self, id: SessionId) {
        self.made.retain(|made| made.session != id);
        self.sessions.retain(|(session, _)| *session != id);
        self.unconfirmed.take_if(|(session, _)| *session == id);
        self.talk.take_if(|talk| talk.session() == id);
        self.agreed.retain(|(session, _)| *session != id);
    }

    /// What data is sealed with in the newest session, if there is one.
    fn suite(&self) -> Option<Suite> {
        let (newest, _) = self.sessions.last()?;
        let agreed = self.agreed.iter().find(|(session, _)| session == newest);
        Some(agreed.map_or(Suite::ChaCha20Poly1305, |(_, suite)| *suite))
    }

    /// Where packets go to it, if no relay is between.
    fn proven(&self) -> Option<SocketAddr> {
        if self.native { self.candidates.proven() } else { self.way.and_then(|way| way.direct()) }
    }

    pub(crate) fn view(&self) -> PeerView<'_> {
        PeerView {
            id: self.id,
            node: self.node,
            name: &self.name,
            key: self.key,
            addresses: &self.addresses,
            proven: self.proven(),
            path: self.paths.as_ref().map(Paths::view),
            candidates: self.candidates.listed(),
            session: self.since(),
            established: self.established,
            trying: self.attempt.is_some(),
            wanted: self.wanted,
            round_trip: self.round_trip,
            suite: self.suite(),
            lanes: (self.further.in_use(), self.further.count()),
            lane_changes_ignored: self.further.ignored(),
        }
    }
}

/// A peer, as a user may see it.
#[derive(Clone, Copy, Debug)]
pub struct PeerView<'a> {
    /// Its number in this daemon.
    pub id: PeerId,
    /// Its number in the network.
    pub node: NodeId,
    /// Its name.
    pub name: &'a str,
    /// Its WireGuard key.
    pub key: PublicKey,
    /// Its overlay addresses.
    pub addresses: &'a [IpAddr],
    /// Where packets go to it, if no relay is between.
    pub proven: Option<SocketAddr>,
    /// How it is reached; a native peer is where it was heard from last.
    pub path: Option<View>,
    /// Where the map says it may be reached.
    pub candidates: &'a [SocketAddr],
    /// When the session in use was made.
    pub session: Option<Time>,
    /// Sessions made with it so far.
    pub established: u64,
    /// Whether a handshake is being tried.
    pub trying: bool,
    /// When a packet for it last waited for a session, or flowed.
    pub wanted: Option<Time>,
    /// How long a packet takes to it and back; never known of a native peer.
    pub round_trip: Option<Duration>,
    /// What data to it is sealed with in the session in use.
    pub suite: Option<Suite>,
    /// Lanes of its sessions that carry data, and how many there are.
    pub lanes: (u8, u8),
    /// Changes of its lanes that it asked for too soon after another, and that were ignored.
    pub lane_changes_ignored: u64,
}
