//! The session of one node, from the handshake to the end of the channel, in one task.
//!
//! The session has no queue. Hints only say that something changed; a message is made from the database at the moment at which it is sent. A slow node
//! therefore costs the memory of one message, and gets fewer, larger changes.

use std::fmt;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::WebSocket;
use taut_base::{AdmissionDenied, Bounds, NodeId, Prefix, PublicKey, RelayId};
use taut_netmap::{Hello, NO_NETWORK, Problem, SCHEMA, ToCoordinator, ToNode, prologue};
use taut_relay_server::log::UNAUTHENTICATED;
use taut_relay_server::{AdmissionGuard, Source};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{asking, refusal, waiting};
use crate::api::channel::{ChannelCloseReason, ControlChannel};
use crate::api::pending_connection::PendingConnection;
use crate::api::{Channels, Context, stopped};
use crate::clock::unix_now;
use crate::log;
use crate::panics::caught;
use crate::state::{
    Admitted, LEASE, Membership, PANIC_PAUSE, RateLimit, ReportedEndpoints, SignedTicket, State, StateError, Update,
};
use crate::store::{NetworkId, Part};

/// Channels per node: the one in use, and an older one that is being closed because the newer one replaced it.
const PER_NODE: usize = 2;

/// Least time between two updates for a node, 100 ms: many changes in a row become ten updates per second.
const UPDATE_EVERY: Duration = Duration::from_millis(100);

/// Least time, on average, between two messages of a node, 50 ms, and the number of messages that may arrive at once. A node sends a ping every 15 s, and a few
/// messages when its addresses change. Further messages wait unread in the node's own connection.
const READ_EVERY: Duration = Duration::from_millis(50);
const READ_BURST: u32 = 100;

/// Least time between two reads of the database that pings cause, 5 s.
const REREAD_EVERY: Duration = Duration::from_secs(5);

/// The party of lines about a database that fails: all nodes' channels report the same. Numbers of nodes begin at 1.
const DATABASE: u64 = 0;

/// Time between two messages about the end of a membership, 12 h: a node warns days before, and its own clock need not be right.
const EXPIRY_EVERY: Duration = Duration::from_secs(12 * 3600);

/// Pause before the next attempt after a failure of the database, 1 s.
const RETRY: Duration = Duration::from_secs(1);

/// The session of an admitted node.
pub(super) struct Session {
    state: Arc<State>,
    channel: ControlChannel,
    membership: Membership,
    /// The place of this channel among all channels.
    seat: AdmissionGuard<NetworkId, NodeId>,
    /// Ends when the channel is evicted in favour of a channel of another network.
    displaced: oneshot::Receiver<()>,
    network: NetworkId,
    node: NodeId,
    seen: IpAddr,
    /// Address that the channel comes from.
    source: IpAddr,
    /// Version of the map that the node has.
    have: u64,
    /// The machine's proven key and its hello.
    machine: PublicKey,
    hello: Hello,
    /// The state of the membership that the node was told last: whether it takes part in the network, and when the membership expires.
    standing: Option<(Part, Option<i64>)>,
    /// Time at which the node is told again how long its membership lasts.
    expiry_due: Option<Instant>,
    /// Time at which the code that the node shows expires, so that it needs another one.
    code_due: Option<Instant>,
    /// Revision of the presence that was sent to the node.
    told: Option<u64>,
    /// True if the node was told of a duplicate.
    told_duplicate: bool,
    /// True if the database may have changed since the last read.
    stale: bool,
    /// Earliest time of the next update, if something changed.
    update_due: Option<Instant>,
    updated: Instant,
    /// Endpoints that the node reported, until they are stored.
    reported: Option<ReportedEndpoints>,
    bound: Option<Vec<RelayId>>,
    /// Prefixes that the node advertises, until they are stored.
    advertised: Option<Vec<Prefix>>,
    /// Rate of messages from the node.
    reads: RateLimit,
    /// Time of the last read of the database.
    last_read: Instant,
    /// Key with which the node binds to relays, and the time of its next ticket.
    ticket: Option<(PublicKey, Instant)>,
    lease: Instant,
}

/// Reason for the end of a session.
enum SessionEnd {
    Channel(ChannelCloseReason),
    /// The coordinator refuses the node, and tells it why.
    Refused(Problem),
    /// The node sent a goodbye.
    Goodbye,
    /// The lease expired, a newer channel replaced this one, or the coordinator stops.
    Coordinator(&'static str),
}

impl From<ChannelCloseReason> for SessionEnd {
    fn from(end: ChannelCloseReason) -> Self {
        Self::Channel(end)
    }
}

impl From<StateError> for SessionEnd {
    fn from(error: StateError) -> Self {
        Self::Refused(refusal::problem(&error))
    }
}

impl Session {
    /// Serves a channel until it ends.
    pub(super) async fn run(
        context: Context,
        guest: Arc<PendingConnection>,
        source: Source,
        socket: WebSocket,
        network: NetworkId,
    ) {
        let Context { state, front, stop, .. } = context.clone();
        let opened = tokio::select! {
            opened = timeout_at(guest.deadline(), open(&state, socket, network)) => opened,
            () = guest.evicted() => return refusal::note(&source, &"too many unauthenticated connections"),
            // No node is admitted any more: the program might end before the node knows.
            () = stopped(stop.clone()) => return refusal::note(&source, &"the coordinator stops"),
        };
        let (channel, machine, hello) = match opened {
            Ok(Ok(opened)) => opened,
            Ok(Err(end)) => return refusal::note(&source, &end),
            Err(_) => return refusal::note(&source, &"no hello in time"),
        };
        if !state.may_open_channel(machine) {
            let reason = "it comes back too often";
            return tracing::info!(target: log::CONTROL, limited = UNAUTHENTICATED, event = "channel-refused", address = %source, %machine, reason);
        }
        // Held until the node is admitted or refused.
        let busy = Arc::clone(&guest).busy();
        if network.0 == NO_NETWORK {
            drop(busy);
            return asking::serve(&context, &guest, &source, channel, (machine, hello)).await;
        }
        let admitted = admit(&state, network, machine, &hello, source.address).await;
        drop(busy);
        let admitted = match admitted {
            Ok(admitted) => admitted,
            Err(problem) => {
                state.figures().refused.note(problem.code);
                tracing::info!(target: log::CONTROL, limited = UNAUTHENTICATED, event = "refused", address = %source, %machine, reason = problem.message);
                return channel.refuse(&ToNode::Refused(problem)).await;
            }
        };
        let Admitted { node, name } = admitted;
        let Ok((seat, displaced)) = enter_channel(&front.channels, network, node) else {
            tracing::warn!(target: log::CONTROL, limited = node.0, event = "no-room-for-channel", node = node.0, name, address = %source);
            let problem = refusal::crowded();
            state.figures().refused.note(problem.code);
            return channel.refuse(&ToNode::Refused(problem)).await;
        };
        guest.pass().admit();
        let Some(membership) = state.hub(network).enter(node, state.next_connection(), hello.run) else {
            tracing::warn!(target: log::CONTROL, limited = node.0, event = "twin", node = node.0, name, address = %source);
            let problem = refusal::duplicate();
            state.figures().refused.note(problem.code);
            return channel.refuse(&ToNode::Refused(problem)).await;
        };
        tracing::info!(target: log::CONTROL, limited = node.0, event = "connected", node = node.0, name, address = %source);
        state.figures().channels.add(1);
        let now = Instant::now();
        let mut session = Self {
            state,
            channel,
            membership,
            seat,
            displaced,
            network,
            node,
            seen: source.seen(),
            source: source.address,
            have: hello.have,
            machine,
            standing: None,
            expiry_due: None,
            code_due: None,
            told: None,
            told_duplicate: false,
            stale: false,
            update_due: None,
            updated: now,
            reported: None,
            bound: None,
            advertised: None,
            reads: RateLimit::new(READ_EVERY, READ_BURST, now),
            last_read: now,
            ticket: hello.bind_key.map(|key| (key, now)),
            hello,
            lease: now + LEASE,
        };
        let why = caught(session.serve(stop)).await.unwrap_or_else(|reason| {
            tracing::error!(target: log::CONTROL, limited = node.0, event = "session-panicked", node = node.0, %network, reason);
            SessionEnd::Coordinator("a defect of the coordinator")
        });
        session.end(why).await;
    }

    async fn serve(&mut self, stop: watch::Receiver<bool>) -> SessionEnd {
        let mut stopped = pin!(stopped(stop));
        if let Err(why) = self.begin().await {
            return why;
        }
        loop {
            let wake = self.next_wake();
            let step = tokio::select! {
                message = self.channel.receive(), if self.reads.due() <= Instant::now() => match message {
                    Ok(message) => self.handle(message).await,
                    Err(end) => Err(end.into()),
                },
                () = sleep_until(wake) => self.on_time().await,
                Ok(()) = self.membership.version.changed() => { self.stale = true; self.update_soon(); Ok(()) }
                Ok(()) = self.membership.revision.changed() => { self.update_soon(); Ok(()) }
                _ = &mut self.displaced => Err(SessionEnd::Coordinator("a network with fewer channels needed the place")),
                _ = &mut self.membership.replaced => Err(SessionEnd::Coordinator("a newer channel of this node took over")),
                () = &mut stopped => Err(SessionEnd::Coordinator("the coordinator stops")),
            };
            if let Err(why) = step {
                return why;
            }
        }
    }

    /// Sends the first messages: the map or its changes (also an empty change, which tells the node that it was admitted), a ticket, and all nodes online.
    async fn begin(&mut self) -> Result<(), SessionEnd> {
        let first = self.state.update_for(self.network, self.node, self.have).await?;
        self.tell_update(first).await?;
        if !self.takes_part() {
            return Ok(());
        }
        self.tell_ticket().await?;
        self.tell_duplicate().await?;
        self.tell_presence().await
    }

    /// Tells the node when another host starts or stops using its keys.
    async fn tell_duplicate(&mut self) -> Result<(), SessionEnd> {
        if !self.takes_part() {
            return Ok(());
        }
        let there = self.membership.has_duplicate();
        if std::mem::replace(&mut self.told_duplicate, there) == there {
            return Ok(());
        }
        self.tell(ToNode::Twin { problem: there.then(refusal::duplicate) }).await
    }

    /// Sends a new ticket if one is due. The next one is due when half of its lifetime is over.
    async fn tell_ticket(&mut self) -> Result<(), SessionEnd> {
        let now = Instant::now();
        let Some((key, due)) = self.ticket.filter(|(_, due)| *due <= now && self.takes_part()) else { return Ok(()) };
        match self.state.ticket(self.network, self.node, key).await {
            Ok(SignedTicket { text, numbered, expires }) => {
                let half = Duration::from_secs(u64::from(self.state.ticket_life())) / 2;
                self.ticket = Some((key, now + half));
                self.tell(ToNode::Ticket { ticket: text, numbered: Some(numbered), expires }).await
            }
            // The last ticket is valid for the other half of its lifetime.
            Err(error @ StateError::Store(_)) => {
                tracing::warn!(target: log::CONTROL, limited = DATABASE, event = "ticket-delayed", node = self.node.0, reason = %error);
                self.ticket = Some((key, due.max(now) + RETRY));
                Ok(())
            }
            // The node ceased to take part since the last update. The next update tells it.
            Err(StateError::NoPart) => {
                self.ticket = Some((key, now + RETRY));
                self.stale = true;
                self.update_soon();
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn handle(&mut self, message: ToCoordinator) -> Result<(), SessionEnd> {
        let now = Instant::now();
        self.lease = now + LEASE;
        self.reads.count(now);
        self.membership.renew();
        match message {
            ToCoordinator::Ping => {
                self.channel.send(&ToNode::Pong).await?;
                // Hints may be lost; a read of the database every 15 s makes up for that.
                if now >= self.last_read + REREAD_EVERY {
                    self.stale = true;
                    self.update_soon();
                }
                Ok(())
            }
            ToCoordinator::Endpoints { endpoints, ports, observed } => {
                self.reported = Some(ReportedEndpoints { listed: endpoints, ports, observed });
                Ok(())
            }
            ToCoordinator::Relays { ids } => {
                self.bound = Some(ids);
                Ok(())
            }
            ToCoordinator::Routes { prefixes } => {
                self.advertised = Some(prefixes);
                Ok(())
            }
            ToCoordinator::Goodbye => Err(SessionEnd::Goodbye),
            ToCoordinator::Leave => {
                self.state.leave(self.network, self.node, self.source).await?;
                Err(StateError::NotAMember.into())
            }
            // A node that takes no part learns nothing of the others.
            ToCoordinator::Explain(_) if !self.takes_part() => Ok(()),
            ToCoordinator::Explain(connection) => match self.state.decide(self.network, self.node, connection).await {
                Ok(decision) => self.tell(ToNode::Decision(decision)).await,
                // The node asks again if its user does. Its channel does not end because of a question.
                Err(error) => {
                    tracing::warn!(target: log::CONTROL, limited = DATABASE, event = "not-explained", node = self.node.0, reason = %error);
                    Ok(())
                }
            },
            ToCoordinator::Unknown => Ok(()),
            ToCoordinator::Hello(_) => Err(SessionEnd::Channel(ChannelCloseReason::Broken("a second hello"))),
        }
    }

    fn update_soon(&mut self) {
        self.update_due.get_or_insert(self.updated + UPDATE_EVERY);
    }

    fn next_wake(&self) -> Instant {
        let has_reported =
            self.takes_part() && (self.reported.is_some() || self.bound.is_some() || self.advertised.is_some());
        let reported = has_reported.then(|| self.membership.endpoints_due());
        let ticket = self.ticket.map(|(_, due)| due).filter(|_| self.takes_part());
        let heard = Some(self.reads.due()).filter(|due| *due > Instant::now());
        let dues = [self.update_due, reported, ticket, heard, self.expiry_due, self.code_due];
        dues.into_iter().flatten().fold(self.lease, Instant::min)
    }

    async fn on_time(&mut self) -> Result<(), SessionEnd> {
        let now = Instant::now();
        if now >= self.lease {
            return Err(SessionEnd::Coordinator("no sign of life"));
        }
        if self.expiry_due.is_some_and(|due| due <= now) {
            self.tell_expiry().await?;
        }
        if self.code_due.is_some_and(|due| due <= now)
            && let Some(part) = self.part()
        {
            self.tell_waiting(part).await?;
        }
        // A node that does not take part has no peers, so its endpoints are not stored.
        if self.takes_part()
            && now >= self.membership.endpoints_due()
            && let Some(reported) = self.reported.take()
        {
            self.store_reported(reported).await?;
        }
        if self.takes_part()
            && now >= self.membership.endpoints_due()
            && let Some(bound) = self.bound.take()
        {
            self.store_bound(bound).await?;
        }
        if self.takes_part()
            && now >= self.membership.endpoints_due()
            && let Some(advertised) = self.advertised.take()
        {
            self.store_advertised(advertised).await?;
        }
        self.tell_ticket().await?;
        if self.update_due.is_some_and(|due| now >= due) {
            self.update().await?;
        }
        Ok(())
    }

    async fn store_reported(&mut self, reported: ReportedEndpoints) -> Result<(), SessionEnd> {
        match self.state.set_endpoints(self.network, self.node, &reported, self.seen).await {
            Err(error @ StateError::Store(_)) => {
                self.not_stored(&error);
                // A report that arrived meanwhile is newer.
                self.reported.get_or_insert(reported);
            }
            other => other?,
        }
        self.membership.count_endpoint_change();
        Ok(())
    }

    async fn store_bound(&mut self, bound: Vec<RelayId>) -> Result<(), SessionEnd> {
        match self.state.set_bound(self.network, self.node, &bound).await {
            Err(error @ StateError::Store(_)) => {
                self.not_stored(&error);
                self.bound.get_or_insert(bound);
            }
            other => other?,
        }
        self.membership.count_endpoint_change();
        Ok(())
    }

    async fn store_advertised(&mut self, advertised: Vec<Prefix>) -> Result<(), SessionEnd> {
        match self.state.set_advertised(self.network, self.node, &advertised).await {
            // A policy that cannot be read approves nothing until an operator applies another one.
            Err(error @ (StateError::Store(_) | StateError::StoredPolicy(_))) => {
                self.not_stored(&error);
                self.advertised.get_or_insert(advertised);
            }
            other => other?,
        }
        self.membership.count_endpoint_change();
        Ok(())
    }

    fn not_stored(&mut self, error: &StateError) {
        tracing::warn!(target: log::CONTROL, limited = DATABASE, event = "endpoints-not-stored", node = self.node.0, reason = %error);
        self.membership.pause_endpoint_changes();
    }

    async fn update(&mut self) -> Result<(), SessionEnd> {
        self.update_due = None;
        self.updated = Instant::now();
        if std::mem::take(&mut self.stale) {
            self.update_map().await?;
        }
        self.tell_duplicate().await?;
        self.tell_presence().await
    }

    async fn update_map(&mut self) -> Result<(), SessionEnd> {
        self.last_read = Instant::now();
        match self.state.update_for(self.network, self.node, self.have).await {
            Ok(update) if update.version == self.have && Some(update.part) == self.part() => {}
            Ok(update) => {
                let version = update.version;
                self.tell_update(update).await?;
                if let Some(took) = self.membership.since_announced(version) {
                    self.state.figures().update.note(took);
                }
            }
            // An error is not an empty map (law 6): the node keeps its map, and gets the changes when the database answers again.
            Err(
                error @ (StateError::Store(_)
                | StateError::Panicked
                | StateError::StoredPolicy(_)
                | StateError::BadMap(_)),
            ) => {
                tracing::warn!(target: log::CONTROL, limited = DATABASE, event = "update-delayed", node = self.node.0, reason = %error);
                let pause = if matches!(error, StateError::Store(_)) { RETRY } else { PANIC_PAUSE };
                self.stale = true;
                self.update_due = Some(Instant::now() + pause);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    async fn tell_update(&mut self, update: Update) -> Result<(), SessionEnd> {
        if let Some(message) = &update.message {
            self.channel.send_json(message).await?;
            let figures = self.state.figures();
            if update.is_whole { &figures.maps } else { &figures.deltas }.add(1);
            figures.map_bytes.add(message.len() as u64);
            self.have = update.version;
        }
        self.tell_standing(update.part, update.expires_at).await
    }

    /// Tells a node that does not take part what it waits for. Tells any other node when its membership expires, if that changed.
    async fn tell_standing(&mut self, part: Part, expires_at: Option<i64>) -> Result<(), SessionEnd> {
        let before = self.standing.replace((part, expires_at));
        if part == Part::Takes {
            self.code_due = None;
            return match before.and_then(|(_, expires_at)| expires_at) == expires_at {
                true => Ok(()),
                false => self.tell_expiry().await,
            };
        }
        if before.map(|(part, _)| part) == Some(part) {
            return Ok(());
        }
        // When the node takes part again, it is told of all nodes that are online, and gets a ticket at once.
        self.told = None;
        self.ticket = self.ticket.map(|(key, _)| (key, Instant::now()));
        self.tell_waiting(part).await
    }

    /// Tells a node that does not take part what it waits for, and the code with which a person approves it.
    async fn tell_waiting(&mut self, part: Part) -> Result<(), SessionEnd> {
        let request = match self.hello.request.is_some() && part != Part::Disabled {
            true => self.state.ask_again(self.network, self.machine, &self.hello, self.source).await.map(Some),
            false => Ok(None),
        };
        let waiting = match request {
            Ok(request) => {
                let left = request.as_ref().map(|row| u64::try_from(row.expires_at - unix_now()).unwrap_or(0));
                self.code_due = left.map(|left| Instant::now() + Duration::from_secs(left));
                waiting::of(&self.state, part, request.as_ref())
            }
            // A node without a code waits, too: it is told why it has no code.
            Err(error) => {
                self.code_due = None;
                waiting::without_code(part, &error)
            }
        };
        self.tell(ToNode::Waiting(waiting)).await
    }

    /// Tells the node how long its membership lasts.
    async fn tell_expiry(&mut self) -> Result<(), SessionEnd> {
        let expires_at = self.standing.and_then(|(_, expires_at)| expires_at);
        self.expiry_due = expires_at.map(|_| Instant::now() + EXPIRY_EVERY);
        let left = expires_at.map(|end| u64::try_from(end - unix_now()).unwrap_or(0));
        self.tell(ToNode::Expiry { left }).await
    }

    fn part(&self) -> Option<Part> {
        self.standing.map(|(part, _)| part)
    }

    fn takes_part(&self) -> bool {
        self.part() == Some(Part::Takes)
    }

    async fn tell(&mut self, message: ToNode) -> Result<(), SessionEnd> {
        Ok(self.channel.send(&message).await?)
    }

    async fn tell_presence(&mut self) -> Result<(), SessionEnd> {
        if !self.takes_part() {
            return Ok(());
        }
        let news = self.membership.news(self.told);
        self.told = Some(news.revision);
        if !news.whole && news.nodes.is_empty() {
            return Ok(());
        }
        self.tell(ToNode::Presence { whole: news.whole, nodes: news.nodes }).await
    }

    async fn end(self, why: SessionEnd) {
        // The channel keeps its place until it is closed.
        let Self { channel, membership, seat: _seat, node, .. } = self;
        if matches!(why, SessionEnd::Goodbye | SessionEnd::Refused(_)) {
            membership.leave();
        }
        // A channel that replaces this one does not wait for its last message.
        drop(membership);
        match why {
            SessionEnd::Channel(end) => disconnected(node, &end),
            SessionEnd::Goodbye => {
                disconnected(node, &"goodbye");
                channel.close().await;
            }
            SessionEnd::Coordinator(why) => {
                disconnected(node, &why);
                channel.close().await;
            }
            SessionEnd::Refused(problem) => {
                disconnected(node, &problem.message);
                channel.refuse(&ToNode::Refused(problem)).await;
            }
        }
    }
}

/// Logs the end of a member's control channel.
fn disconnected(node: NodeId, reason: &dyn fmt::Display) {
    tracing::info!(target: log::CONTROL, limited = node.0, event = "disconnected", node = node.0, %reason);
}

/// Takes a place among the channels, which networks share fairly.
fn enter_channel(
    channels: &Arc<Channels>,
    network: NetworkId,
    node: NodeId,
) -> Result<(AdmissionGuard<NetworkId, NodeId>, oneshot::Receiver<()>), AdmissionDenied> {
    let (lose, displaced) = oneshot::channel();
    let bounds = Bounds { host: PER_NODE, group: usize::MAX };
    let seat = channels.enter(network, node, bounds, move || _ = lose.send(()))?;
    Ok((seat, displaced))
}

async fn open(
    state: &State,
    socket: WebSocket,
    network: NetworkId,
) -> Result<(ControlChannel, PublicKey, Hello), ChannelCloseReason> {
    let (mut channel, machine) = ControlChannel::accept(socket, &prologue(&network.0), state.key()).await?;
    match channel.receive().await? {
        ToCoordinator::Hello(hello) => Ok((channel, machine, hello)),
        _ => Err(ChannelCloseReason::Broken("no hello")),
    }
}

async fn admit(
    state: &State,
    network: NetworkId,
    machine: PublicKey,
    hello: &Hello,
    from: IpAddr,
) -> Result<Admitted, Problem> {
    if hello.schema > SCHEMA {
        return Err(refusal::too_new(hello.schema));
    }
    state.admit(network, machine, hello, from).await.map_err(|error| refusal::problem(&error))
}
