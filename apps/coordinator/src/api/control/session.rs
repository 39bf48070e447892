//! One node's session: from the handshake to the end of the channel, in one task that reads, writes and waits.
//!
//! There is no queue: hints collapse into "something changed", and what is sent is read from the rows when it is sent. A slow node
//! therefore costs one message of memory, and gets fewer, larger changes.

use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::WebSocket;
use taut_base::{NodeId, PublicKey};
use taut_netmap::{Hello, Problem, SCHEMA, ToCoordinator, ToNode};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::channel::{Channel, End};
use super::refusal;
use crate::api::door::Pass;
use crate::api::stopped;
use crate::log;
use crate::state::{Admitted, LEASE, Membership, State, StateError, Update};
use crate::store::NetworkId;

/// From the opened WebSocket to the node's hello.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Least time between two updates for a node: a storm of changes becomes ten updates per second.
const UPDATE_EVERY: Duration = Duration::from_millis(100);

/// Least time between two changes of a node's endpoints: each is written to disk and told to every peer.
const ENDPOINTS_EVERY: Duration = Duration::from_secs(1);

/// When to try again after the database failed in the middle of a session.
const RETRY: Duration = Duration::from_secs(1);

/// A node that was let in.
pub(super) struct Session {
    state: Arc<State>,
    channel: Channel,
    membership: Membership,
    node: NodeId,
    seen: IpAddr,
    /// Version that the node has.
    have: u64,
    /// Presence that the node has been told.
    told: Option<u64>,
    /// Whether rows may have changed; presence alone is in memory.
    stale: bool,
    /// When the next update may go out, if something changed.
    update_due: Option<Instant>,
    updated: Instant,
    endpoints: Option<(Vec<SocketAddr>, Vec<u16>)>,
    endpoints_due: Instant,
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
        state: Arc<State>,
        stop: watch::Receiver<bool>,
        pass: Arc<Pass>,
        socket: WebSocket,
        network: NetworkId,
        seen: IpAddr,
    ) {
        let opened = tokio::select! {
            opened = timeout(HANDSHAKE, open(&state, socket, network)) => opened,
            () = pass.asked_to_leave() => return log::stranger("channel-refused", &[("from", &seen), ("why", &"too many strangers")]),
        };
        let (channel, machine, hello) = match opened {
            Ok(Ok(opened)) => opened,
            Ok(Err(end)) => return log::stranger("channel-refused", &[("from", &seen), ("why", &end)]),
            Err(_) => return log::stranger("channel-refused", &[("from", &seen), ("why", &"no hello in time")]),
        };
        // Held until it is a member, or told that it is none.
        let busy = pass.busy();
        let admitted = match admit(&state, network, machine, &hello).await {
            Ok(admitted) => admitted,
            Err(problem) => {
                log::stranger("refused", &[("from", &seen), ("machine", &machine), ("why", &problem.message)]);
                return channel.refuse(problem).await;
            }
        };
        drop(busy);
        let Admitted { node, name } = admitted;
        let membership = state.hub(network).enter(node, state.next_connection());
        log::event("connected", &[("node", &node), ("name", &name), ("from", &seen)]);
        let now = Instant::now();
        let mut session = Self {
            state,
            channel,
            membership,
            node,
            seen,
            have: hello.have,
            told: None,
            stale: false,
            update_due: None,
            updated: now,
            endpoints: None,
            endpoints_due: now,
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
                message = self.channel.receive() => match message {
                    Ok(message) => self.hear(message).await,
                    Err(end) => Err(end.into()),
                },
                () = sleep_until(wake) => self.on_time().await,
                Ok(()) = self.membership.version.changed() => { self.stale = true; self.update_soon(); Ok(()) }
                Ok(()) = self.membership.revision.changed() => { self.update_soon(); Ok(()) }
                _ = &mut self.membership.replaced => Err(Stop::Ours("a newer channel of this node took over")),
                () = &mut stopped => Err(Stop::Ours("the coordinator stops")),
            };
            if let Err(why) = step {
                return why;
            }
        }
    }

    /// The first answer tells the node that it was let in, even if nothing changed; then everybody who is online.
    async fn begin(&mut self) -> Result<(), Stop> {
        let first = match self.state.update_for(self.node, self.have).await? {
            Update::Map(map) => ToNode::Map(map),
            Update::Delta(delta) => ToNode::Delta(delta),
        };
        self.tell(first).await?;
        self.tell_presence().await
    }

    async fn hear(&mut self, message: ToCoordinator) -> Result<(), Stop> {
        self.lease = Instant::now() + LEASE;
        self.membership.renew();
        match message {
            ToCoordinator::Ping => {
                self.channel.send(&ToNode::Pong).await?;
                // Hints may be lost; a look at the rows every 15 s repairs that.
                self.stale = true;
                self.update_soon();
                Ok(())
            }
            ToCoordinator::Endpoints { endpoints, ports } => {
                self.endpoints = Some((endpoints, ports));
                Ok(())
            }
            ToCoordinator::Goodbye => Err(Stop::Goodbye),
            ToCoordinator::Unknown => Ok(()),
            ToCoordinator::Hello(_) => Err(Stop::Channel(End::Broken("a second hello"))),
        }
    }

    fn update_soon(&mut self) {
        self.update_due.get_or_insert(self.updated + UPDATE_EVERY);
    }

    fn next_wake(&self) -> Instant {
        let endpoints = self.endpoints.is_some().then_some(self.endpoints_due);
        [self.update_due, endpoints].into_iter().flatten().fold(self.lease, Instant::min)
    }

    async fn on_time(&mut self) -> Result<(), Stop> {
        let now = Instant::now();
        if now >= self.lease {
            return Err(Stop::Ours("no sign of life"));
        }
        if now >= self.endpoints_due
            && let Some((endpoints, ports)) = self.endpoints.take()
        {
            self.take_endpoints(endpoints, ports).await?;
        }
        if self.update_due.is_some_and(|due| now >= due) {
            self.update().await?;
        }
        Ok(())
    }

    async fn take_endpoints(&mut self, endpoints: Vec<SocketAddr>, ports: Vec<u16>) -> Result<(), Stop> {
        let result = self.state.set_endpoints(self.node, &endpoints, &ports, self.seen).await;
        self.endpoints_due = Instant::now() + ENDPOINTS_EVERY;
        match result {
            Err(error @ StateError::Store(_)) => {
                log::event("endpoints-not-stored", &[("node", &self.node), ("error", &error)]);
                self.endpoints = Some((endpoints, ports));
                Ok(())
            }
            other => other.map_err(Stop::from),
        }
    }

    async fn update(&mut self) -> Result<(), Stop> {
        self.update_due = None;
        self.updated = Instant::now();
        if std::mem::take(&mut self.stale) {
            self.update_map().await?;
        }
        self.tell_presence().await
    }

    async fn update_map(&mut self) -> Result<(), Stop> {
        match self.state.update_for(self.node, self.have).await {
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
            ToNode::Presence { .. } | ToNode::Pong | ToNode::Refused(_) => self.have,
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
        let Self { channel, membership, node, .. } = self;
        match why {
            Stop::Channel(end) => log::event("disconnected", &[("node", &node), ("why", &end)]),
            Stop::Goodbye => {
                membership.leave();
                log::event("disconnected", &[("node", &node), ("why", &"goodbye")]);
                channel.close().await;
            }
            Stop::Ours(why) => {
                log::event("disconnected", &[("node", &node), ("why", &why)]);
                channel.close().await;
            }
            Stop::Refused(problem) => {
                membership.leave();
                log::event("disconnected", &[("node", &node), ("why", &problem.message)]);
                channel.refuse(problem).await;
            }
        }
    }
}

async fn open(state: &State, socket: WebSocket, network: NetworkId) -> Result<(Channel, PublicKey, Hello), End> {
    let (mut channel, machine) = Channel::accept(socket, network, state.key()).await?;
    match channel.receive().await? {
        ToCoordinator::Hello(hello) => Ok((channel, machine, hello)),
        ToCoordinator::Endpoints { .. } | ToCoordinator::Ping | ToCoordinator::Goodbye | ToCoordinator::Unknown => {
            Err(End::Broken("no hello"))
        }
    }
}

async fn admit(state: &State, network: NetworkId, machine: PublicKey, hello: &Hello) -> Result<Admitted, Problem> {
    if hello.schema > SCHEMA {
        return Err(refusal::too_new(hello.schema));
    }
    state.admit(network, machine, hello).await.map_err(|error| refusal::problem(&error))
}
