//! The state of one peer: its keys, handshakes, sessions and candidates.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use taut_base::{MAX_CANDIDATES, NodeId, PeerId, PublicKey, ReceiverIndex, RelayId, SessionId, Time};
use taut_path::{Candidates, Choice, PathView, Paths, Way};
use taut_tunnel::cookie::{Cookies, mac1};
use taut_tunnel::handshake::{Remote, SentInitiation, Timestamp};
use taut_tunnel::{Attempt, Bucket, CROSSING, Exporter, Limits, Retry, Role};
use taut_wire::control::{Abilities, Suite};
use taut_wire::wireguard::CookieReply;

use crate::answer::{REPEAT, SentResponse};
use crate::contract::{HandshakeMessage, source_of};
use crate::extra_lanes::ExtraLanes;
use crate::negotiation::Negotiation;

/// Maximum number of sessions of one peer: three in a lane, and one on its way there.
pub(crate) const MAX_SESSIONS: usize = 4;

/// Maximum number of unanswered initiations of one peer. A later one does not replace an earlier one, because on a round trip of seconds the response to
/// the first is on its way when the second leaves.
const WAITING: usize = 3;

/// A peer. What it has only during a handshake or a session is in boxes: a network has thousands of members, and most never talk to this node.
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
    /// Time at which a packet for the peer last waited for a session or was sent.
    pub(crate) wanted: Option<Time>,
    /// Unanswered initiations, each with the time at which it was sent, the oldest first.
    waiting: VecDeque<(Time, SentInitiation)>,
    /// The bytes of the newest unanswered initiation.
    message: Option<Box<HandshakeMessage>>,
    /// The limit on accepted initiations of the peer.
    pub(crate) accepted: Bucket,
    /// Cookies that the peer requires in messages to it.
    cookies: Cookies,
    /// Ways by which the newest initiation was sent once more, because a cookie came by them.
    cookie_ways: Vec<Way>,
    /// The latest timestamp of an accepted initiation of the peer. An initiation with an earlier or the same timestamp is a replay.
    pub(crate) heard: Timestamp,
    /// The latest timestamp of an initiation to the peer.
    pub(crate) stamped: Timestamp,
    /// The latest response, until the peer uses its session.
    pub(crate) answer: Option<Box<SentResponse>>,
    /// Sessions that were used and are not retired, each with its start. The last one is in use.
    pub(crate) sessions: Vec<(SessionId, Time)>,
    /// The session of the latest response, until the peer uses it.
    pub(crate) unconfirmed: Option<(SessionId, Time)>,
    /// Number of sessions made with the peer.
    pub(crate) established: u64,
    /// Time at which the newest session was made, even if the session is gone.
    pub(crate) last_handshake: Option<Time>,
    /// Whether the peer is stock WireGuard: stock retries, one endpoint, no extensions (law 1).
    pub(crate) native: bool,
    /// Interval of unconditional keepalives.
    pub(crate) keepalive: Option<Duration>,
    /// Bytes of handshake messages received from the peer and sent to it.
    pub(crate) handshake_bytes: (u64, u64),
    /// The negotiation on the control pair of the newest session.
    pub(crate) negotiation: Option<Box<Negotiation>>,
    /// The agreed suite of each session, and what the peer said there about its abilities.
    agreed: Vec<(SessionId, Suite, Abilities)>,
    /// The paths to the peer, from its first handshake to the end of its last session; always `None` for a native peer, which roams.
    pub(crate) paths: Option<Box<Paths>>,
    /// The way for data that the paths chose.
    pub(crate) way: Option<Way>,
    /// The ways to the peer through relays, best first.
    pub(crate) relayed: Vec<Way>,
    /// The relays that the peer is bound to, according to the map.
    pub(crate) relays: Vec<RelayId>,
    /// Round-trip time of the path in use.
    pub(crate) round_trip: Option<Duration>,
    /// The path that the lanes were last told of.
    pub(crate) choice: Option<Box<Choice>>,
    /// True if its sessions have all lanes of a node that opens lanes by load.
    pub(crate) spread: bool,
    /// True if its extra lanes were closed again without an answer from their ports.
    pub(crate) ports_closed: bool,
    /// The lanes beyond the first.
    pub(crate) extra_lanes: ExtraLanes,
    /// True if the peer uses extra lanes also through a relay.
    pub(crate) has_relayed_lanes: bool,
    /// The key material of the extra lanes of each session.
    pub(crate) derived: Vec<LaneSource>,
}

/// A session between Taut nodes: the key material of its lanes, and the number of lanes that were made of it.
pub(crate) struct LaneSource {
    pub(crate) session: SessionId,
    pub(crate) role: Role,
    pub(crate) exporter: Exporter,
    pub(crate) born: Time,
    /// Number of local lanes that its lanes are spread over ([`LaneId::served_by`](taut_base::LaneId::served_by)).
    pub(crate) own: u8,
    /// Number of lanes whose keys local lanes have. Each lane is given away once (protocol.md 1.7).
    pub(crate) lanes: u8,
}

impl Peer {
    /// Creates a peer of which only the key is known.
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
            cookie_ways: Vec::new(),
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
            negotiation: None,
            agreed: Vec::new(),
            paths: None,
            way: None,
            relayed: Vec::new(),
            relays: Vec::new(),
            round_trip: None,
            choice: None,
            spread: false,
            ports_closed: false,
            extra_lanes: ExtraLanes::default(),
            has_relayed_lanes: false,
            derived: Vec::new(),
        }
    }

    /// Returns the schedule of handshake retransmissions to this peer.
    pub(crate) fn retry(&self) -> Retry {
        if self.native { Retry::Stock } else { Retry::Taut }
    }

    /// Notes that an authentic handshake message came from `source` and is answered with `answer` bytes. Such a message moves the endpoint of a native peer,
    /// as in stock WireGuard. A Taut peer moves only when both sides have proven the path.
    pub(crate) fn heard_from(&mut self, source: Way, message: usize, answer: usize) {
        self.handshake_bytes.0 += message as u64;
        self.handshake_bytes.1 += answer as u64;
        if self.native {
            self.set_proven(source);
        }
    }

    /// Sets the proven endpoint of the peer.
    pub(crate) fn set_proven(&mut self, way: Way) {
        // A way through a relay is not a candidate.
        if let Some(endpoint) = way.direct() {
            self.candidates.set_proven(endpoint);
        }
    }

    /// Forgets the handshakes in progress, which were made with a key that is no longer in use. Returns the indices of their initiations.
    pub(crate) fn forget_handshakes(&mut self) -> Vec<ReceiverIndex> {
        (self.attempt, self.message, self.answer) = (None, None, None);
        // Cookies are bound to the key of the side that gave them.
        self.cookies = Cookies::default();
        self.waiting.drain(..).map(|(_, initiation)| initiation.local()).collect()
    }

    /// Forgets the sessions and the handshakes in progress. The latest timestamps are kept, because they reveal replays.
    pub(crate) fn forget_sessions(&mut self) {
        (self.attempt, self.message, self.answer, self.unconfirmed) = (None, None, None, None);
        self.negotiation = None;
        self.agreed.clear();
        self.extra_lanes.forget();
        self.derived.clear();
        self.waiting.clear();
        self.sessions.clear();
        // Cookies are bound to the former local port.
        self.cookies = Cookies::default();
    }

    /// Returns the newest initiation for another transmission, while the peer would answer it with the same response. A new initiation would make another
    /// session on the other side, which would replace the session of the response that is on its way to this node.
    pub(crate) fn repeatable(&self, now: Time) -> Option<HandshakeMessage> {
        let (sent, _) = self.waiting.back()?;
        self.message.as_deref().copied().filter(|_| now < *sent + REPEAT)
    }

    /// Adds a sent initiation. Returns the index of the oldest one if it is dropped for that.
    pub(crate) fn wait_for(
        &mut self,
        initiation: SentInitiation,
        message: HandshakeMessage,
        now: Time,
    ) -> Option<ReceiverIndex> {
        self.waiting.push_back((now, initiation));
        self.message = Some(Box::new(message));
        self.cookie_ways.clear();
        if self.waiting.len() <= WAITING {
            return None;
        }
        self.waiting.pop_front().map(|(_, initiation)| initiation.local())
    }

    /// Returns a copy of a message for one way, with mac2 if the peer requires a cookie there (protocol.md 2.1, 2.3).
    pub(crate) fn copy_for(&self, way: Way, mut message: HandshakeMessage, now: Time) -> HandshakeMessage {
        self.cookies.write_mac2(source_of(way), message.as_bytes_mut(), now);
        message
    }

    /// Takes a cookie of a busy peer. The next message to `source` carries it. A cookie that refers to neither the newest initiation nor the latest response is
    /// ignored, and no cookie moves an endpoint (fault B8). Returns the copy of the initiation that is sent to `source` at once, if any.
    pub(crate) fn take_cookie(&mut self, source: Way, reply: &CookieReply<'_>, now: Time) -> Option<HandshakeMessage> {
        let sent = [self.message.as_deref(), self.answer.as_deref().map(SentResponse::response)];
        let message = sent.into_iter().flatten().find(|message| message.sender() == Some(reply.receiver))?;
        let taken = self.cookies.take(&self.remote, mac1(message.as_bytes())?, source_of(source), reply, now);
        if taken { self.copy_at_once(source, reply.receiver, now) } else { None }
    }

    /// Returns the initiation `index` with the cookie that just came from `source`, ahead of the next retransmission (protocol.md 2.1). It is returned only
    /// during an attempt, only for a way that the initiation went before, and only once for each way: an eavesdropper can make valid cookies for the
    /// initiation, and must not be able to make this node send.
    fn copy_at_once(&mut self, source: Way, index: u32, now: Time) -> Option<HandshakeMessage> {
        let message = self.repeatable(now).filter(|message| message.sender() == Some(index))?;
        let was_sent = self.attempt.is_some() && self.handshake_ways().any(|way| way == source);
        let is_repeated = self.cookie_ways.contains(&source) || self.cookie_ways.len() >= MAX_CANDIDATES;
        // Stock WireGuard keeps the cookie for its next retransmission (paper, section 6.6), and so does this node for native peers (protocol.md 2.2).
        if self.native || !was_sent || is_repeated {
            return None;
        }
        self.cookie_ways.push(source);
        Some(self.copy_for(source, message, now))
    }

    /// Returns the ways of a handshake: through relays, which reach the peer at once, and to all candidates (protocol.md 2.1).
    pub(crate) fn handshake_ways(&self) -> impl Iterator<Item = Way> + '_ {
        self.relayed.iter().copied().chain(self.candidates.for_handshake().map(Way::Direct))
    }

    /// Returns the unanswered initiation with this index.
    pub(crate) fn waiting_for(&self, index: ReceiverIndex) -> Option<&SentInitiation> {
        self.waiting.iter().map(|(_, initiation)| initiation).find(|initiation| initiation.local() == index)
    }

    /// When the initiation `index` was first sent.
    pub(crate) fn sent_at(&self, index: ReceiverIndex) -> Option<Time> {
        self.waiting.iter().find(|(_, initiation)| initiation.local() == index).map(|(sent, _)| *sent)
    }

    /// Removes the initiation `index`, which became a session, and the earlier ones. A later one is kept, because the peer may answer it and would then know
    /// only its session. Returns the indices of the earlier ones.
    pub(crate) fn finished(&mut self, index: ReceiverIndex) -> Vec<ReceiverIndex> {
        let Some(place) = self.waiting.iter().position(|(_, initiation)| initiation.local() == index) else {
            return Vec::new();
        };
        let mut earlier: Vec<_> = self.waiting.drain(..=place).map(|(_, initiation)| initiation.local()).collect();
        earlier.retain(|other| *other != index);
        earlier
    }

    /// Removes initiations that are older than a stock retry interval, once no attempt is in progress. Returns their indices.
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

    /// Returns the time at which work for this peer is due.
    pub(crate) fn poll_timeout(&self, limits: &Limits, now: Time) -> Option<Time> {
        let handshake = match &self.attempt {
            Some(attempt) => Some(attempt.poll_timeout()),
            None => self.waiting.front().map(|(sent, _)| *sent + limits.retry),
        };
        // Extra lanes are probed inside a session.
        let negotiation = self.negotiation.as_deref().and_then(Negotiation::poll_timeout);
        let extra_lanes = self.negotiation.as_ref().and_then(|_| self.extra_lanes.poll_timeout());
        let paths = self.paths.as_ref().and_then(|paths| paths.poll_timeout(now));
        [handshake, negotiation, extra_lanes, paths].into_iter().flatten().min()
    }

    /// Returns the start of the session in use.
    pub(crate) fn since(&self) -> Option<Time> {
        self.sessions.last().map(|(_, since)| *since)
    }

    /// Adds a session that is in use now.
    pub(crate) fn begin(&mut self, id: SessionId, since: Time) {
        self.sessions.push((id, since));
        self.established += 1;
        self.last_handshake = Some(since);
    }

    /// Makes an earlier session the one in use, as both sides prefer it after their handshakes crossed. Returns this node's role in it; `None` if it is in use
    /// already or unknown.
    pub(crate) fn prefer(&mut self, id: SessionId) -> Option<Role> {
        let place = self.sessions.iter().position(|(session, _)| *session == id)?;
        if place + 1 == self.sessions.len() {
            return None;
        }
        let session = self.sessions.remove(place);
        self.sessions.push(session);
        self.derived.iter().find(|made| made.session == id).map(|made| made.role)
    }

    /// Returns the number of local lanes that a session's lanes are spread over; `None` if the session has only the stock pair or is gone.
    pub(crate) fn own_of(&self, session: SessionId) -> Option<u8> {
        self.derived.iter().find(|made| made.session == session).map(|made| made.own)
    }

    /// Returns true if a session's lanes are spread over this number of local lanes, as far as is known.
    pub(crate) fn has_own(&self, session: SessionId, own: u8) -> bool {
        self.own_of(session).is_none_or(|made| made == own)
    }

    /// Returns the newest session in use whose lanes are spread over this number of local lanes.
    pub(crate) fn newest_with(&self, own: u8) -> Option<SessionId> {
        self.sessions.iter().rev().map(|(session, _)| *session).find(|session| self.has_own(*session, own))
    }

    /// Returns the index that the next session's name must be less than, while both nodes could take that session and one that exists for crossed. Of crossed sessions
    /// the one with the smaller name is used ([`taut_tunnel::Keyring`]). This must be the next one: the node renews a young session because its lanes change.
    pub(crate) fn young_name(&self, now: Time) -> Option<ReceiverIndex> {
        let may_cross = |made: &&LaneSource| made.role == Role::Responder && now < made.born + CROSSING;
        let young = self.derived.iter().filter(may_cross);
        young.map(|made| made.exporter.name().0).min()
    }

    /// Returns true if handshakes with the peer have just crossed. If the next ones crossed, too, there would be more sessions than a lane keeps, and packets of
    /// the oldest that are on the way would be lost; so the node changes no lanes meanwhile.
    pub(crate) fn has_just_crossed(&self, now: Time) -> bool {
        let mut young = self.derived.iter().filter(|made| now < made.born + CROSSING).map(|made| made.role);
        young.next().is_some_and(|first| young.any(|role| role != first))
    }

    /// Sets the suite that both ends agreed on for a session, and the peer's abilities.
    pub(crate) fn agree(&mut self, id: SessionId, suite: Suite, abilities: Abilities) {
        self.agreed.retain(|(session, ..)| *session != id);
        if self.agreed.len() == MAX_SESSIONS {
            self.agreed.remove(0);
        }
        self.agreed.push((id, suite, abilities));
    }

    /// Returns what [`Self::agree`] set for a session.
    pub(crate) fn agreed(&self, id: SessionId) -> Option<(Suite, Abilities)> {
        self.agreed.iter().find(|(session, ..)| *session == id).map(|(_, suite, abilities)| (*suite, *abilities))
    }

    /// Forgets a session that the first lane has retired. The other lanes keep it for the same time.
    pub(crate) fn end(&mut self, id: SessionId) {
        self.derived.retain(|made| made.session != id);
        self.sessions.retain(|(session, _)| *session != id);
        self.unconfirmed.take_if(|(session, _)| *session == id);
        self.negotiation.take_if(|negotiation| negotiation.session() == id);
        self.agreed.retain(|(session, ..)| *session != id);
    }

    /// Returns the suite of data in the session in use.
    fn suite(&self) -> Option<Suite> {
        let (newest, _) = self.sessions.last()?;
        Some(self.agreed(*newest).map_or(Suite::ChaCha20Poly1305, |(suite, _)| suite))
    }

    /// Returns the endpoint that packets to the peer go to; `None` on a relayed path.
    fn proven(&self) -> Option<SocketAddr> {
        if self.native { self.candidates.proven() } else { self.way.and_then(|way| way.direct()) }
    }

    /// Returns the path to the peer for users: without a session, the one that its first packet would take.
    fn path_view(&self) -> Option<PathView> {
        let without_session = || PathView {
            way: self.relayed.first().copied(),
            direct: (0, self.candidates.listed().len()),
            ..PathView::default()
        };
        let known = self.paths.as_deref().map(Paths::view);
        known.or_else(|| (!self.native).then(without_session))
    }

    pub(crate) fn view(&self) -> PeerView<'_> {
        PeerView {
            id: self.id,
            node: self.node,
            name: &self.name,
            key: self.key,
            addresses: &self.addresses,
            proven: self.proven(),
            path: self.path_view(),
            candidates: self.candidates.listed(),
            session: self.since(),
            established: self.established,
            is_silent: self.is_silent,
            trying: self.attempt.is_some(),
            wanted: self.wanted,
            round_trip: self.round_trip,
            suite: self.suite(),
            lanes: (self.extra_lanes.in_use(), self.extra_lanes.count()),
            lane_changes_ignored: self.extra_lanes.ignored(),
        }
    }
}

/// The state of a peer for users.
#[derive(Clone, Copy, Debug)]
pub struct PeerView<'a> {
    /// The peer's number in this daemon.
    pub id: PeerId,
    /// The peer's number in the network.
    pub node: NodeId,
    /// The peer's name.
    pub name: &'a str,
    /// The peer's WireGuard key.
    pub key: PublicKey,
    /// The peer's overlay addresses.
    pub addresses: &'a [IpAddr],
    /// The endpoint that packets to the peer go to; `None` on a relayed path.
    pub proven: Option<SocketAddr>,
    /// The state of the paths to the peer; `None` for a native peer.
    pub path: Option<PathView>,
    /// The endpoints that the map lists.
    pub candidates: &'a [SocketAddr],
    /// Start of the session in use.
    pub session: Option<Time>,
    /// Number of sessions made with the peer.
    pub established: u64,
    /// True if the last handshakes got no answer.
    pub is_silent: bool,
    /// Whether a handshake attempt is in progress.
    pub trying: bool,
    /// Time at which a packet for the peer last waited for a session or was sent.
    pub wanted: Option<Time>,
    /// Round-trip time of the path in use; `None` for a native peer.
    pub round_trip: Option<Duration>,
    /// The suite of data in the session in use.
    pub suite: Option<Suite>,
    /// Number of its sessions' lanes that carry data, and number of all lanes.
    pub lanes: (u8, u8),
    /// Number of changes of its lanes that came too soon after another one and were deferred.
    pub lane_changes_ignored: u64,
}
