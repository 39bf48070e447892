//! The rules about members, addresses, keys, maps and presence. This module knows no HTTP and no SQL.
//!
//! Every change is one write transaction: it changes rows together with the network's version, commits, and then hints at the change to the channels.

mod absence;
mod addresses;
mod admission;
mod audience;
mod backup;
mod channel_rates;
mod chosen_names;
mod damage;
mod decisions;
mod device_rules;
mod devices;
mod duplicates;
mod ended_people;
mod endpoints;
mod enforced;
mod error;
mod feed;
mod first_policy;
mod first_tokens;
mod hub;
mod joins;
mod key_changes;
mod keys;
mod maps;
mod members;
mod migration;
mod names;
mod networks;
mod nodes;
mod operators;
mod own_devices;
mod party;
mod people;
mod people_commands;
#[cfg(test)]
pub(crate) mod poison;
mod policies;
mod policy_threads;
mod population;
mod presence;
mod rate_limit;
mod relay_links;
mod relays;
mod removal;
mod replicas;
mod requests;
mod reserved;
mod revocations;
mod routes;
mod secret;
mod stage;
mod start;
mod tickets;
mod webhooks;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use taut_base::{NodeId, PrivateKey, PublicKey};
use taut_relay::SigningKey;
use taut_relay_server::Removals;
use tokio::sync::{Notify, watch};

use channel_rates::PartyRates;
use joins::Joins;
use people::People;
use policy_threads::PolicyThreads;
use relay_links::RelayLinks;
use requests::RequestRates;

pub(crate) use admission::{Admitted, is_used_up};
pub(crate) use backup::{backup, findings, restore, restored_elsewhere};
pub(crate) use chosen_names::{NamesChange, NamesView};
pub(crate) use damage::damaged_rows;
pub(crate) use device_rules::DeviceChange;
pub(crate) use endpoints::{MAX_ENDPOINTS, ReportedEndpoints};
pub(crate) use error::StateError;
pub(crate) use feed::{PANIC_PAUSE, Update};
pub(crate) use hub::{Hub, LEASE, Membership};
pub(crate) use keys::{Expiry, LONGEST_EXPIRY};
pub(crate) use migration::migrate;
pub(crate) use networks::{NetworkView, check_name, check_prefix};
pub(crate) use nodes::NodeView;
pub(crate) use party::{Access, Actor, Area, Caller, Grants, Need, PeopleError};
pub(crate) use people::{
    ABSOLUTE_LIFE, API_PREFIX, Attempt, AuditView, Earlier, EditUser, Known, LONGEST_TERMINAL_LIFE, LONGEST_TOKEN_LIFE,
    NewCodes, NewTerminal, NewUser, OidcReturn, Opened, Password, Repeatable, RoleView, SIGN_IN_LIFE, TerminalAnswer,
    TokenView, UserView, csrf_token,
};
pub(crate) use people_commands::{new_api_token, new_set_up_link};
pub(crate) use policies::{NewPolicy, PolicyView};
pub(crate) use population::MemberKeys;
pub(crate) use rate_limit::RateLimit;
pub(crate) use relay_links::{RelayMembership, RelayReport};
pub(crate) use relays::{OWN, OWN_NAME, RelayToAdd, RelayView};
pub(crate) use requests::{Approval, Asked, REQUEST_LIFE, RequestView, is_code};
pub(crate) use routes::EXIT_NODE;
pub(crate) use secret::{Secret, random};
pub(crate) use start::{FirstStart, StartOptions, kept_first_tokens, new_operator_token};
pub(crate) use tickets::{SignedTicket, TICKET_LIFE};
pub(crate) use webhooks::{Delivery, WebhookView};

use crate::clock::{SteadyClock, unix_now};
use crate::figures::{self, Figures, Present};
use crate::log;
use crate::store::{MANY_NODES, NetworkId, Party, Store, StoreError};
use crate::webhooks::Sender;

/// Time between two searches for expired leases, 1 s.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Time between two deletions of old marks of removed nodes and networks, 1 h. Marks are kept for days.
const FORGET_EVERY: Duration = Duration::from_secs(3600);

/// Time between two writes of "last seen", 60 s: exact enough for people, and one write for all nodes.
const SEEN_EVERY: Duration = Duration::from_secs(60);

/// Time for which the clock must be steady before memberships expire by it, 10 min: a time server corrects the clock of a host that booted with a wrong one
/// within minutes, and all nodes would expire at once by a clock that is years ahead (fault M3).
const EXPIRY_STEADY: Duration = Duration::from_secs(600);

/// Size of the database's log, in percent of its limit, from which the coordinator warns.
const LARGE_LOG: u64 = 25;

/// The state of the coordinator: the database, and what is kept in memory beside it.
pub(crate) struct State {
    store: Store,
    key: PrivateKey,
    public: PublicKey,
    /// Key that signs tickets for relays.
    signer: SigningKey,
    /// Lifetime of tickets, in seconds.
    ticket_life: u32,
    /// Noise static key of the coordinator's own relay.
    relay_key: PrivateKey,
    urls: Vec<String>,
    hubs: Mutex<BTreeMap<NetworkId, Arc<Hub>>>,
    /// The networks that exist. A node that names another network counts as unauthenticated.
    known: Mutex<BTreeSet<NetworkId>>,
    /// Nodes that were online since the last write of "last seen".
    seen: Mutex<BTreeSet<NodeId>>,
    connections: AtomicU64,
    channel_rates: PartyRates,
    joins: Joins,
    request_rates: RequestRates,
    /// Changes whenever an operator answered a request to join at this coordinator.
    asked: watch::Sender<()>,
    /// Program versions that members reported and that are not stored yet.
    programs: Mutex<BTreeMap<NodeId, String>>,
    /// Handle on the coordinator's own relay, which is told of each removal; empty without one.
    relay: OnceLock<Removals>,
    /// Relays with a channel to this coordinator or another one.
    relay_links: RelayLinks,
    /// Number of the last revocation that was seen; changes whenever there may be a new one.
    revoked: watch::Sender<i64>,
    people: People,
    sender: Arc<Sender>,
    policy_threads: PolicyThreads,
    figures: Arc<Figures>,
    /// Told when a node comes or goes at one of the hubs.
    moved: Arc<Notify>,
    /// True once the nodes of other coordinators are known.
    presence_known: watch::Sender<bool>,
    /// Why other coordinators on the same database are not heard; `None` if they are, or if there are none.
    unheard: Mutex<Option<String>>,
    /// Why presence is not followed, although other coordinators are heard.
    untold: Mutex<Option<String>>,
    /// Locks on the state directory and on the database in it: one `serve` for each. Dropped last, because the end of any access to a file ends SQLite's locks on it.
    _locks: (File, Option<File>),
}

/// The coordinator's health, by its database.
pub(crate) struct Health {
    /// Warnings about problems that may soon keep the coordinator from answering nodes, or the reason why it cannot answer them any more. The texts are public, so they
    /// contain no names of hosts, users or files.
    pub(crate) warnings: Result<Vec<String>, &'static str>,
    /// The failure of the database with all details, for the log only.
    pub(crate) trouble: Option<String>,
}

impl State {
    /// Returns the coordinator's private key, for the handshake of control channels.
    pub(crate) fn key(&self) -> &PrivateKey {
        &self.key
    }

    /// Returns the coordinator's public key, which nodes pin.
    pub(crate) fn public_key(&self) -> PublicKey {
        self.public
    }

    /// Returns the private key of the coordinator's own relay.
    pub(crate) fn relay_key(&self) -> &PrivateKey {
        &self.relay_key
    }

    /// Returns the database, for tests that damage it.
    #[cfg(test)]
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Forgets what is in memory of the networks' rows, as a restart does: a test has changed rows without a new version.
    #[cfg(test)]
    pub(crate) fn forget_views(&self) {
        let hubs: Vec<_> = self.hubs.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for hub in hubs {
            // A read that began before the change is over then.
            let _turn = hub.feed().blocking_turn();
            hub.feed().clear();
        }
    }

    /// Returns the networks that this coordinator believes to exist.
    #[cfg(test)]
    pub(crate) fn known_networks(&self) -> BTreeSet<NetworkId> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns what is counted.
    pub(crate) fn figures(&self) -> &Arc<Figures> {
        &self.figures
    }

    /// Returns all figures for Prometheus. `connections` has those of the connections.
    pub(crate) fn render_figures(&self, connections: &Present) -> String {
        let hubs: Vec<Arc<Hub>> = self.hubs.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        let present = Present {
            channels: hubs.iter().map(|hub| hub.channels() as u64).sum(),
            online: hubs.iter().map(|hub| hub.online().len() as u64).sum(),
            relays: self.relay_links.count() as u64,
            networks: self.known.lock().unwrap_or_else(PoisonError::into_inner).len() as u64,
            waiting: (self.store.waiting_readers() as u64, self.store.waiting_writers() as u64),
            silence: self.store.silence(),
            is_well: self.unheard().is_none(),
            ..*connections
        };
        figures::render(&self.figures, self.store.figures(), &present)
    }

    /// Returns a number that no other connection has.
    pub(crate) fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns true if this machine, which has proven its key, may open another channel now.
    pub(crate) fn may_open_channel(&self, machine: PublicKey) -> bool {
        self.channel_rates.take(&machine, Instant::now())
    }

    /// Returns the party for which the database is used when a node of this network is served.
    fn party(&self, network: NetworkId) -> Party {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(&network) { Party::Network(network) } else { Party::Unauthenticated }
    }

    /// Returns the hub of a network.
    pub(crate) fn hub(&self, network: NetworkId) -> Arc<Hub> {
        let mut hubs = self.hubs.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(hubs.entry(network).or_insert_with(|| Arc::new(Hub::new(Arc::clone(&self.moved)))))
    }

    /// Takes the locks that serving members takes, one after the other. Does not return if one of them is never released.
    pub(crate) fn pass_locks(&self) {
        drop(self.known.lock());
        let hubs: Vec<Arc<Hub>> = self.hubs.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        hubs.iter().for_each(|hub| _ = hub.channels());
    }

    /// Reads the database, and returns the coordinator's health.
    pub(crate) async fn check_health(&self) -> Health {
        let read = async { self.store.read(Party::Coordinator).await?.networks().await };
        self.health(read.await.err())
    }

    /// The same without reading the database, which takes long to answer.
    pub(crate) fn check_memory(&self) -> Health {
        self.health(Some(StoreError::Slow))
    }

    fn health(&self, trouble: Option<StoreError>) -> Health {
        let Some(error) = trouble else { return Health { warnings: Ok(self.warnings()), trouble: None } };
        let trouble = Some(error.to_string());
        if !self.may_remember(&error) {
            return Health { warnings: Err(error.in_short()), trouble };
        }
        let silent = "the database does not answer; members get their maps from memory, and nothing can be changed";
        Health { warnings: Ok(std::iter::once(String::from(silent)).chain(self.warnings()).collect()), trouble }
    }

    /// Returns warnings that are known without asking the database.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let large = "the database's log is large: another program reads an old state of it";
        let large = (self.store.log_share() >= LARGE_LOG).then(|| String::from(large));
        large.into_iter().chain(self.unheard().map(String::from)).collect()
    }

    /// Ends expired leases, deletes old marks and writes "last seen", without end. Runs beside the server.
    pub(crate) async fn run_maintenance(&self) {
        let mut seen_at = Instant::now();
        let mut counted_at = Instant::now();
        let mut forgot_at: Option<Instant> = None;
        let (mut clock, mut expiry_clock) = (SteadyClock::default(), SteadyClock::after(EXPIRY_STEADY));
        loop {
            tokio::time::sleep(SWEEP_EVERY).await;
            self.sweep();
            if let Some(now) = clock.read(unix_now(), Instant::now())
                && forgot_at.is_none_or(|last| last.elapsed() >= FORGET_EVERY)
            {
                forgot_at = Some(Instant::now());
                if let Err(error) = self.forget_marks(now).await {
                    tracing::error!(target: log::DATABASE, event = "marks-not-forgotten", reason = %error);
                }
                if let Err(error) = self.forget_people_marks(now).await {
                    tracing::error!(target: log::DATABASE, event = "sessions-not-forgotten", reason = %error);
                }
            }
            if let Some(now) = expiry_clock.read(unix_now(), Instant::now())
                && let Err(error) = self.end_memberships(now).await
            {
                tracing::error!(target: log::DATABASE, event = "memberships-not-ended", reason = %error);
            }
            let up = counted_at.elapsed();
            if up >= absence::COUNT_EVERY {
                counted_at = Instant::now();
                if let Err(error) = self.count_absence(up).await {
                    tracing::error!(target: log::DATABASE, event = "absence-not-counted", reason = %error);
                }
            }
            if seen_at.elapsed() >= SEEN_EVERY {
                seen_at = Instant::now();
                self.write_last_seen().await;
                self.write_failed_sign_ins().await;
                self.warn_of_log();
            }
        }
    }

    /// Warns once a minute before the database's log reaches its limit and nothing can be written (fault O4).
    fn warn_of_log(&self) {
        let share = self.store.log_share();
        if share >= LARGE_LOG {
            let hint = "end the program that reads the database (`fuser coordinator.db` shows it)";
            tracing::warn!(target: log::DATABASE, event = "database-log-large", percent = share, hint);
        }
    }

    /// Stores what is only in memory, and closes the database.
    pub(crate) async fn close(&self) {
        self.sweep();
        self.write_last_seen().await;
        self.write_failed_sign_ins().await;
        self.leave_replicas().await;
        self.store.close().await;
    }

    fn sweep(&self) {
        let hubs: Vec<Arc<Hub>> = self.hubs.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for hub in hubs {
            let online = hub.online_here();
            for node in hub.sweep(Instant::now()) {
                tracing::info!(target: log::CONTROL, limited = node.0, event = "offline", node = node.0);
            }
            self.seen.lock().unwrap_or_else(PoisonError::into_inner).extend(online);
        }
    }

    /// Stores when nodes were last online, and the versions of their programs. Each piece is a transaction of its own, so that others get their turn in between.
    async fn write_last_seen(&self) {
        let seen = std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner));
        let mut programs = std::mem::take(&mut *self.programs.lock().unwrap_or_else(PoisonError::into_inner));
        let seen: Vec<NodeId> = seen.into_iter().collect();
        let written = async {
            for piece in seen.chunks(MANY_NODES) {
                let mut tx = self.store.write(Party::Coordinator).await?;
                tx.set_last_seen(piece, unix_now()).await?;
                tx.commit().await?;
            }
            while let Some(program) = programs.values().next().cloned() {
                let with = |(node, other): (&NodeId, &String)| (*other == program).then_some(*node);
                let nodes: Vec<NodeId> = programs.iter().filter_map(with).take(MANY_NODES).collect();
                let mut tx = self.store.write(Party::Coordinator).await?;
                tx.set_program(&nodes, &program).await?;
                tx.commit().await?;
                nodes.iter().for_each(|node| _ = programs.remove(node));
            }
            Ok::<(), StoreError>(())
        };
        if let Err(error) = written.await {
            tracing::error!(target: log::DATABASE, event = "last-seen-failed", reason = %error);
            let mut newer = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
            for (node, program) in programs {
                newer.entry(node).or_insert(program);
            }
        }
    }
}

/// Returns new random bits for a version.
fn random_bits() -> u32 {
    u32::from_le_bytes(random())
}
