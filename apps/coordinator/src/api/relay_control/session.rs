//! The session of one relay, from the handshake to the end of its channel, in one task.
//!
//! Like a node's session it has no queue: `revoked` says only that there may be new revocations, which are then read from the database, after the last one that the
//! relay was told of.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::WebSocket;
use taut_base::PublicKey;
use taut_netmap::{CoordinatorToRelay, Problem, ProblemCode, RELAY_PROLOGUE, RelayToCoordinator, SCHEMA};
use taut_relay_server::Source;
use taut_relay_server::log::UNAUTHENTICATED;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::api::channel::{ChannelCloseReason, ControlChannel};
use crate::api::control::{problem, too_new};
use crate::api::pending_connection::PendingConnection;
use crate::api::{Context, stopped};
use crate::log;
use crate::state::{RateLimit, RelayMembership, State, StateError};
use crate::store::NetworkId;

/// Time without a message after which a channel counts as dead, 45 s: four reports of the load.
const LEASE: Duration = Duration::from_secs(45);

/// Least time, on average, between two messages of a relay, 1 s, and the number of messages that may arrive at once. A relay sends one every 10 s.
const READ_EVERY: Duration = Duration::from_secs(1);
const READ_BURST: u32 = 10;

/// Pause before the next attempt after a failure of the database, 1 s.
const RETRY: Duration = Duration::from_secs(1);

/// The session of a relay that a network lists.
pub(super) struct RelaySession {
    state: Arc<State>,
    channel: ControlChannel,
    membership: RelayMembership,
    key: PublicKey,
    /// The networks that list it, each with the number of the last revocation that the relay was told of.
    told: BTreeMap<NetworkId, i64>,
    /// Time of the next attempt to tell it of revocations, after a failure.
    retry_at: Option<Instant>,
    lease: Instant,
    reads: RateLimit,
}

/// Reason for the end of a session.
enum SessionEnd {
    Channel(ChannelCloseReason),
    Refused(Problem),
    Coordinator(&'static str),
    Goodbye,
}

impl From<ChannelCloseReason> for SessionEnd {
    fn from(end: ChannelCloseReason) -> Self {
        Self::Channel(end)
    }
}

impl RelaySession {
    /// Serves a channel until it ends.
    pub(super) async fn run(context: Context, guest: Arc<PendingConnection>, source: Source, socket: WebSocket) {
        let Context { state, stop, .. } = context;
        let opened = tokio::select! {
            opened = timeout_at(guest.deadline(), open(&state, socket)) => opened,
            () = guest.evicted() => return refused(&source, None, "too many unauthenticated connections"),
            () = stopped(stop.clone()) => return refused(&source, None, "the coordinator stops"),
        };
        let (channel, key, schema, version) = match opened {
            Ok(Ok(opened)) => opened,
            Ok(Err(end)) => return refused(&source, None, &end.to_string()),
            Err(_) => return refused(&source, None, "no hello in time"),
        };
        if !state.may_open_channel(key) {
            return refused(&source, Some(key), "it comes back too often");
        }
        let busy = Arc::clone(&guest).busy();
        let admitted = match schema {
            ..=SCHEMA => state.networks_of_relay(key).await.map_err(|error| problem(&error)),
            newer => Err(too_new(newer)),
        };
        drop(busy);
        let networks = match admitted {
            Ok(networks) => networks,
            Err(problem) => {
                refused(&source, Some(key), &problem.message);
                return channel.refuse(&CoordinatorToRelay::Refused(problem)).await;
            }
        };
        let Some(membership) = state.enter_relay(key, &version) else {
            refused(&source, Some(key), "too many relays have channels");
            return channel.refuse(&CoordinatorToRelay::Refused(crowded())).await;
        };
        guest.pass().admit();
        tracing::info!(target: log::RELAY, event = "relay-connected", relay = %key, address = %source);
        let now = Instant::now();
        let mut session = Self {
            state,
            channel,
            membership,
            key,
            told: networks.into_iter().map(|network| (network, 0)).collect(),
            retry_at: Some(now),
            lease: now + LEASE,
            reads: RateLimit::new(READ_EVERY, READ_BURST, now),
        };
        let why = session.serve(stop).await;
        session.end(why).await;
    }

    async fn serve(&mut self, stop: watch::Receiver<bool>) -> SessionEnd {
        let mut stopped = pin!(stopped(stop));
        let mut revoked = self.state.revoked();
        loop {
            let wake = self.next_wake();
            let step = tokio::select! {
                message = self.channel.receive(), if self.reads.due() <= Instant::now() => match message {
                    Ok(message) => self.handle(message).await,
                    Err(end) => Err(end.into()),
                },
                () = sleep_until(wake) => self.on_time().await,
                Ok(()) = revoked.changed() => self.tell_of_changes().await,
                _ = &mut self.membership.replaced => Err(SessionEnd::Refused(twin())),
                () = &mut stopped => Err(SessionEnd::Coordinator("the coordinator stops")),
            };
            if let Err(why) = step {
                return why;
            }
        }
    }

    fn next_wake(&self) -> Instant {
        let reads = Some(self.reads.due()).filter(|due| *due > Instant::now());
        [self.retry_at, reads].into_iter().flatten().fold(self.lease, Instant::min)
    }

    async fn on_time(&mut self) -> Result<(), SessionEnd> {
        let now = Instant::now();
        if now >= self.lease {
            return Err(SessionEnd::Coordinator("no sign of life"));
        }
        if self.retry_at.is_some_and(|at| now >= at) { self.tell().await } else { Ok(()) }
    }

    async fn handle(&mut self, message: RelayToCoordinator) -> Result<(), SessionEnd> {
        let now = Instant::now();
        self.reads.count(now);
        match message {
            RelayToCoordinator::Load(load) => {
                self.lease = now + LEASE;
                if let Err(error) = self.membership.note(load).await {
                    self.not_now("load-not-stored", &error);
                }
                self.channel.send(&CoordinatorToRelay::Noted).await?;
                // It may be listed by other networks now, and a hint may be lost.
                self.tell_of_changes().await
            }
            RelayToCoordinator::Hello { .. } => Err(SessionEnd::Channel(ChannelCloseReason::Broken("a second hello"))),
            RelayToCoordinator::Goodbye => Err(SessionEnd::Goodbye),
            RelayToCoordinator::Unknown => Ok(()),
        }
    }

    /// Tells the relay of the revocations in the networks that list it now.
    async fn tell_of_changes(&mut self) -> Result<(), SessionEnd> {
        self.look_again().await?;
        self.tell().await
    }

    /// Reads again which networks list the relay.
    async fn look_again(&mut self) -> Result<(), SessionEnd> {
        match self.state.networks_of_relay(self.key).await {
            Ok(networks) => {
                self.told.retain(|network, _| networks.contains(network));
                for network in networks {
                    self.told.entry(network).or_insert(0);
                }
                Ok(())
            }
            Err(error @ StateError::UnknownRelay(_)) => Err(SessionEnd::Refused(problem(&error))),
            Err(error) => {
                self.not_now("relay-not-compared", &error);
                Ok(())
            }
        }
    }

    /// Tells the relay of all revocations that it does not know.
    async fn tell(&mut self) -> Result<(), SessionEnd> {
        self.retry_at = None;
        let networks: Vec<NetworkId> = self.told.keys().copied().collect();
        for network in networks {
            loop {
                let after = self.told.get(&network).copied().unwrap_or(0);
                match self.state.revocations(network, after).await {
                    Ok(None) => break,
                    Ok(Some((revocations, last))) => {
                        self.channel.send(&CoordinatorToRelay::Revoked { revocations }).await?;
                        self.told.insert(network, last);
                    }
                    // The relay keeps what it knows, and is told when the database answers again.
                    Err(error) => {
                        self.not_now("revocations-delayed", &error);
                        self.retry_at = Some(Instant::now() + RETRY);
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    fn not_now(&self, event: &'static str, error: &StateError) {
        tracing::warn!(target: log::RELAY, limited = 0, event, relay = %self.key, reason = %error);
    }

    async fn end(self, why: SessionEnd) {
        // The channel counts until it is closed.
        let Self { channel, membership: _membership, key, .. } = self;
        let reason = match &why {
            SessionEnd::Channel(end) => end.to_string(),
            SessionEnd::Refused(problem) => problem.message.clone(),
            SessionEnd::Coordinator(why) => String::from(*why),
            SessionEnd::Goodbye => String::from("goodbye"),
        };
        tracing::info!(target: log::RELAY, event = "relay-disconnected", relay = %key, reason);
        match why {
            SessionEnd::Channel(_) => {}
            SessionEnd::Refused(problem) => channel.refuse(&CoordinatorToRelay::Refused(problem)).await,
            SessionEnd::Coordinator(reason) => {
                channel.refuse(&CoordinatorToRelay::Closing { reason: String::from(reason) }).await;
            }
            SessionEnd::Goodbye => channel.close().await,
        }
    }
}

async fn open(
    state: &State,
    socket: WebSocket,
) -> Result<(ControlChannel, PublicKey, u32, String), ChannelCloseReason> {
    let (mut channel, key) = ControlChannel::accept(socket, RELAY_PROLOGUE, state.key()).await?;
    match channel.receive().await? {
        RelayToCoordinator::Hello { schema, version } => Ok((channel, key, schema, version)),
        _ => Err(ChannelCloseReason::Broken("no hello")),
    }
}

/// Returns the refusal of a relay when a newer channel with its key takes over. A relay that lost its connection does not receive it, because its older channel is dead.
fn twin() -> Problem {
    Problem {
        code: ProblemCode::Twin,
        message: String::from("a newer channel with this relay's key took over"),
        hint: String::from(
            "if a second relay runs with a copy of the key file, give it a key of its own: delete the file there, and add the relay by its new key",
        ),
    }
}

/// Returns the refusal of a relay for which there is no place.
fn crowded() -> Problem {
    Problem {
        code: ProblemCode::Unavailable,
        message: String::from("as many relays as this coordinator takes have a channel to it"),
        hint: String::from("remove relays that are not needed (`taut-coordinator relays remove`); it is tried again"),
    }
}

/// Logs that a connection did not become a relay's channel.
fn refused(source: &Source, relay: Option<PublicKey>, reason: &str) {
    let relay = relay.map(|key| key.to_string());
    tracing::info!(target: log::RELAY, limited = UNAUTHENTICATED, event = "relay-refused", address = %source, relay, reason);
}
