//! One node's session: from the handshake to the end of the channel, in one task that reads, writes and waits.
//!
//! There is no queue: hints collapse into "something changed", and what is sent is read from the rows when it is sent. A slow node
//! therefore costs one message of memory, and gets fewer, larger changes.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::WebSocket;
use taut_base::{AdmissionDenied, Bounds, NodeId, PublicKey, RelayId};
use taut_netmap::{Hello, Problem, SCHEMA, ToCoordinator, ToNode};
use taut_relay_server::{Seat, Source};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::channel::{Channel, End};
use super::refusal;
use crate::api::door::Guest;
use crate::api::{Channels, Context, stopped};
use crate::log;
use crate::state::{Admitted, LEASE, Membership, Pace, ReportedEndpoints, Signed, State, StateError, Update};
use crate::store::NetworkId;

/// Channels per node: the one in use, and an older one that is being closed because the newer one replaced it.
const PER_NODE: usize = 2;

/// Least time between two updates for a node: a storm of changes becomes ten updates per second.
const UPDATE_EVERY: Duration = Duration::from_millis(100);

/// Least time, on average, between two messages of a node that are read, and how many are read at once before that counts: an honest node sends a ping
/// every 15 s and a few messages when it moves. Who sends more waits in its own connection.
const HEARD_EVERY: Duration = Duration::from_millis(50);
const HEARD_BURST: u32 = 100;

/// Least time between two looks at the rows that pings ask for.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// When to try again after the database failed in the middle of a session.
const RETRY: Duration = Duration::from_secs(1);

/// A node that was let in.
pub(super) struct Session {
    state: Arc<State>,
    channel: Channel,
    membership: Membership,
    /// Its place among the channels.
    seat: Seat<NetworkId, NodeId>,
    /// Ends when the channel is evicted for another network's.
    displaced: oneshot::Receiver<()>,
    network: NetworkId,
    node: NodeId,
    seen: IpAddr,
    /// Version that the node has.
    have: u64,
    /// Presence that the node has been told.
    told: Option<u64>,
    /// Whether it has been told of a twin.
    told_twin: bool,
    /// Whether rows may have changed; presence alone is in memory.
    stale: bool,
    /// When the next update may go out, if something changed.
    update_due: Option<Instant>,
    updated: Instant,
    /// Where the node says that it may be reached, and at which relays, as long as that is not written.
    places: Option<ReportedEndpoints>,
    bound: Option<Vec<RelayId>>,
    /// When the next message may be read.
    reads: Pace,
    /// When the rows were looked at.
    looked: Instant,
    /// What the node binds to relays with, and when it is given the next ticket.
    ticket: Option<(PublicKey, Instant)>,
    lease: Instant,
}

/// What ends a session.
enum Stop {
    Channel(End),
    /// The node is told why.
    Refused(Problem),
    /// The node said goodbye.
    Goodbye,
    /// The lease ran out, a newer channel took over, or the coordinator stops.
    Ours(&'static str),
}

impl From<End> for Stop {
    fn from(end: End) -> Self {
        Self::Channel(end)
    }
}

impl From<StateError> for Stop {
    fn from(error: StateError) -> Self {
        Self::Refused(refusal::problem(&error))
    }
}

impl Session {
    /// Serves one channel to its end.
    pub(super) async fn run(
        context: Context,
        guest: Arc<Guest>,
        source: Source,
        socket: WebSocket,
        network: NetworkId,
    ) {
        let Context { state, front, stop, .. } = context;
        let opened = tokio::select! {
            opened = timeout_at(guest.deadline(), open(&state, socket, network)) => opened,
            () = guest.asked_to_leave() => return log::stranger("channel-refused", &[("from", &source), ("why", &"too many strangers")]),
        };
        let (channel, machine, hello) = match opened {
            Ok(Ok(opened)) => opened,
            Ok(Err(end)) => return log::stranger("channel-refused", &[("from", &source), ("why", &end)]),
            Err(_) => return log::stranger("channel-refused", &[("from", &source), ("why", &"no hello in time")]),
        };
        if !state.may_come(machine) {
            let why = "it comes back too often";
            return log::stranger("channel-refused", &[("from", &source), ("machine", &machine), ("why", &why)]);
        }
        // Held until it is a member, or told that it is none.
        let busy = Arc::clone(&guest).busy();
        let admitted = match admit(&state, network, machine, &hello, source.address).await {
            Ok(admitted) => admitted,
            Err(problem) => {
                log::stranger("refused", &[("from", &source), ("machine", &machine), ("why", &problem.message)]);
                return channel.refuse(problem).await;
            }
        };
        let Admitted { node, name } = admitted;
        let Ok((seat, displaced)) = take_place(&front.channels, network, node) else {
            log::member("no-room-for-channel", node, &[("name", &name), ("from", &source)]);
            return channel.refuse(refusal::crowded()).await;
        };
        drop(busy);
        guest.pass().admit();
        let Some(membership) = state.hub(network).enter(node, state.next_connection(), hello.run) else {
            log::stranger("twin", &[("node", &node), ("name", &name), ("from", &source)]);
            return channel.refuse(refusal::twin()).await;
        };
        log::member("connected", node, &[("name", &name), ("from", &source)]);
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
            have: hello.have,
            told: None,
            told_twin: false,
            stale: false,
            update_due: None,
            updated: now,
            places: None,
            bound: None,
            reads: Pace::new(HEARD_EVERY, HEARD_BURST, now),
            looked: now,
            ticket: hello.bind_key.map(|key| (key, now)),
            lease: now + LEASE,
        };
        let why = session.serve(stop).await;
        session.end(why).await;
    }

    async fn serve(&mut self, stop: watch::Receiver<bool>) -> Stop {
        let mut stopped = pin!(stopped(stop));
        if let Err(why) = self.begin().await {
            return why;
        }
        loop {
            let wake = self.next_wake();
            let step = tokio::select! {
                message = self.channel.receive(), if self.reads.due() <= Instant::now() => match message {
                    Ok(message) => self.hear(message).await,
                    Err(end) => Err(end.into()),
                },
                () = sleep_until(wake) => self.on_time().await,
                Ok(()) = self.membership.version.changed() => { self.stale = true; self.update_soon(); Ok(()) }
                Ok(()) = self.membership.revision.changed() => { self.update_soon(); Ok(()) }
                _ = &mut self.displaced => Err(Stop::Ours("a network with fewer channels needed the place")),
                _ = &mut self.membership.replaced => Err(Stop::Ours("a newer channel of this node took over")),
                () = &mut stopped => Err(Stop::Ours("the coordinator stops")),
            };
            if let Err(why) = step {
                return why;
            }
        }
    }

    /// The first answer tells the node that it was let in, even if nothing changed; then its ticket, and everybody who is online.
    async fn begin(&mut self) -> Result<(), Stop> {
        let first = match self.state.update_for(self.network, self.node, self.have).await? {
            Update::Map(map) => ToNode::Map(map),
            Update::Delta(delta) => ToNode::Delta(delta),
        };
        self.tell(first).await?;
        self.tell_ticket().await?;
        self.tell_twin().await?;
        self.tell_presence().await
    }

    /// Says that another host uses the node's keys, and when it does no more.
    async fn tell_twin(&mut self) -> Result<(), Stop> {
        let there = self.membership.has_twin();
        if std::mem::replace(&mut self.told_twin, there) == there {
            return Ok(());
        }
        self.tell(ToNode::Twin { problem: there.then(refusal::twin) }).await
    }

    /// A fresh ticket if one is due; the next is when half of its life is over.
    async fn tell_ticket(&mut self) -> Result<(), Stop> {
        let now = Instant::now();
        let Some((key, due)) = self.ticket.filter(|(_, due)| *due <= now) else { return Ok(()) };
        match self.state.ticket(self.network, self.node, key).await {
            Ok(Signed { text, numbered, expires }) => {
                let half = Duration::from_secs(u64::from(self.state.ticket_life())) / 2;
                self.ticket = Some((key, now + half));
                self.tell(ToNode::Ticket { ticket: text, numbered: Some(numbered), expires }).await
            }
            // The node has the other half of the last one left.
            Err(error @ StateError::Store(_)) => {
                log::event("ticket-delayed", &[("node", &self.node), ("error", &error)]);
                self.ticket = Some((key, due.max(now) + RETRY));
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn hear(&mut self, message: ToCoordinator) -> Result<(), Stop> {
        let now = Instant::now();
        self.lease = now + LEASE;
        self.reads.pay(now);
        self.membership.renew();
        match message {
            ToCoordinator::Ping => {
                self.channel.send(&ToNode::Pong).await?;
                // Hints may be lost; a look at the rows every 15 s repairs that.
                if now >= self.looked + LOOK_EVERY {
                    self.stale = true;
                    self.update_soon();
                }
                Ok(())
            }
            ToCoordinator::Endpoints { endpoints, ports, observed } => {
                self.places = Some(ReportedEndpoints { listed: endpoints, ports, observed });
                Ok(())
            }
            ToCoordinator::Relays { ids } => {
                self.bound = Some(ids);
                Ok(())
            }
            ToCoordinator::Goodbye => Err(Stop::Goodbye),
            ToCoordinator::Leave => {
                self.state.leave(self.network, self.node).await?;
                Err(StateError::NotAMember.into())
            }
            ToCoordinator::Unknown => Ok(()),
            ToCoordinator::Hello(_) => Err(Stop::Channel(End::Broken("a second hello"))),
        }
    }

    fn update_soon(&mut self) {
        self.update_due.get_or_insert(self.updated + UPDATE_EVERY);
    }

    fn next_wake(&self) -> Instant {
        let places = (self.places.is_some() || self.bound.is_some()).then(|| self.membership.places_due());
        let ticket = self.ticket.map(|(_, due)| due);
        let heard = Some(self.reads.due()).filter(|due| *due > Instant::now());
        [self.update_due, places, ticket, heard].into_iter().flatten().fold(self.lease, Instant::min)
    }

    async fn on_time(&mut self) -> Result<(), Stop> {
        let now = Instant::now();
        if now >= self.lease {
            return Err(Stop::Ours("no sign of life"));
        }
        if now >= self.membership.places_due()
            && let Some(places) = self.places.take()
        {
            self.take_places(places).await?;
        }
        if now >= self.membership.places_due()
            && let Some(bound) = self.bound.take()
        {
            self.take_bound(bound).await?;
        }
        self.tell_ticket().await?;
        if self.update_due.is_some_and(|due| now >= due) {
            self.update().await?;
        }
        Ok(())
    }

    async fn take_places(&mut self, places: ReportedEndpoints) -> Result<(), Stop> {
        match self.state.set_endpoints(self.network, self.node, &places, self.seen).await {
            Err(error @ StateError::Store(_)) => {
                self.not_stored(&error);
                // What the node said meanwhile is newer.
                self.places.get_or_insert(places);
            }
            other => other?,
        }
        self.membership.pay_places();
        Ok(())
    }

    async fn take_bound(&mut self, bound: Vec<RelayId>) -> Result<(), Stop> {
        match self.state.set_bound(self.network, self.node, &bound).await {
            Err(error @ StateError::Store(_)) => {
                self.not_stored(&error);
                self.bound.get_or_insert(bound);
            }
            other => other?,
        }
        self.membership.pay_places();
        Ok(())
    }

    fn not_stored(&mut self, error: &StateError) {
        log::event("endpoints-not-stored", &[("node", &self.node), ("error", error)]);
        self.membership.pause_places();
    }

    async fn update(&mut self) -> Result<(), Stop> {
        self.update_due = None;
        self.updated = Instant::now();
        if std::mem::take(&mut self.stale) {
            self.update_map().await?;
        }
        self.tell_twin().await?;
        self.tell_presence().await
    }

    async fn update_map(&mut self) -> Result<(), Stop> {
        self.looked = Instant::now();
        match self.state.update_for(self.network, self.node, self.have).await {
            Ok(Update::Map(map)) => self.tell(ToNode::Map(map)).await?,
            Ok(Update::Delta(delta)) if delta.to == self.have => {}
            Ok(Update::Delta(delta)) => self.tell(ToNode::Delta(delta)).await?,
            // An error is not an empty map (law 6): the node keeps what it has, and is served when the database is back.
            Err(error @ StateError::Store(_)) => {
                log::event("update-delayed", &[("node", &self.node), ("error", &error)]);
                self.stale = true;
                self.update_due = Some(Instant::now() + RETRY);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    async fn tell(&mut self, message: ToNode) -> Result<(), Stop> {
        let version = match &message {
            ToNode::Map(map) => map.version,
            ToNode::Delta(delta) => delta.to,
            ToNode::Presence { .. }
            | ToNode::Pong
            | ToNode::Ticket { .. }
            | ToNode::Twin { .. }
            | ToNode::Refused(_) => self.have,
        };
        self.channel.send(&message).await?;
        self.have = version;
        Ok(())
    }

    async fn tell_presence(&mut self) -> Result<(), Stop> {
        let news = self.membership.news(self.told);
        self.told = Some(news.revision);
        if !news.whole && news.nodes.is_empty() {
            return Ok(());
        }
        self.tell(ToNode::Presence { whole: news.whole, nodes: news.nodes }).await
    }

    async fn end(self, why: Stop) {
        // The place stays taken until the channel is closed.
        let Self { channel, membership, seat: _seat, node, .. } = self;
        if matches!(why, Stop::Goodbye | Stop::Refused(_)) {
            membership.leave();
        }
        // Who takes its place does not wait for the last words.
        drop(membership);
        match why {
            Stop::Channel(end) => log::member("disconnected", node, &[("why", &end)]),
            Stop::Goodbye => {
                log::member("disconnected", node, &[("why", &"goodbye")]);
                channel.close().await;
            }
            Stop::Ours(why) => {
                log::member("disconnected", node, &[("why", &why)]);
                channel.close().await;
            }
            Stop::Refused(problem) => {
                log::member("disconnected", node, &[("why", &problem.message)]);
                channel.refuse(problem).await;
            }
        }
    }
}

/// Takes a place among the channels. Networks share them fairly.
fn take_place(
    channels: &Arc<Channels>,
    network: NetworkId,
    node: NodeId,
) -> Result<(Seat<NetworkId, NodeId>, oneshot::Receiver<()>), AdmissionDenied> {
    let (lose, displaced) = oneshot::channel();
    let bounds = Bounds { host: PER_NODE, group: usize::MAX };
    let seat = channels.enter(network, node, bounds, move || _ = lose.send(()))?;
    Ok((seat, displaced))
}

async fn open(state: &State, socket: WebSocket, network: NetworkId) -> Result<(Channel, PublicKey, Hello), End> {
    let (mut channel, machine) = Channel::accept(socket, network, state.key()).await?;
    match channel.receive().await? {
        ToCoordinator::Hello(hello) => Ok((channel, machine, hello)),
        _ => Err(End::Broken("no hello")),
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
