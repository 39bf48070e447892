//! The room of the rules: members, addresses, keys, maps, presence. The one place where they live; it knows no HTTP and no SQL.
//!
//! Every change takes the store's one turn to write, changes rows and the network's version together, commits, and then hints at it.

mod addresses;
mod admission;
mod arrivals;
mod backup;
mod endpoints;
mod error;
mod first_tokens;
mod hub;
mod joins;
mod key_changes;
mod keys;
mod maps;
mod members;
mod names;
mod networks;
mod nodes;
mod operators;
mod pace;
mod presence;
mod relays;
mod removal;
mod reserved;
mod secret;
mod start;
mod tickets;
mod twins;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use taut_base::{NodeId, PrivateKey, PublicKey};
use taut_relay::SigningKey;
use taut_relay_server::Removals;

use arrivals::Arrivals;
use joins::Joins;

pub(crate) use admission::Admitted;
pub(crate) use backup::{backup, findings, restore};
pub(crate) use endpoints::{MAX_ENDPOINTS, ReportedEndpoints};
pub(crate) use error::StateError;
pub(crate) use hub::{Hub, LEASE, Membership};
pub(crate) use keys::{Expiry, LONGEST_EXPIRY};
pub(crate) use members::Update;
pub(crate) use networks::NetworkView;
pub(crate) use nodes::NodeView;
pub(crate) use pace::Pace;
pub(crate) use relays::{Named, OWN, OWN_NAME, RelayView};
pub(crate) use secret::{Secret, random};
pub(crate) use start::{FirstStart, Options, kept_first_tokens, new_operator_token};
pub(crate) use tickets::{LIFE as TICKET_LIFE, Signed};

use crate::clock::{SteadyClock, unix_now};
use crate::log;
use crate::store::{NetworkId, Party, Store};

/// How often run-out leases are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Time between two looks for old marks of removed nodes and networks, 1 h: they are kept for days.
const FORGET_EVERY: Duration = Duration::from_secs(3600);

/// How often "last seen" is written: often enough for people, seldom enough to cost nothing.
const SEEN_EVERY: Duration = Duration::from_secs(60);

/// Share of the log's bound, in percent, from which it is warned of.
const LARGE_LOG: u64 = 25;

/// Everything that the coordinator knows.
pub(crate) struct State {
    store: Store,
    key: PrivateKey,
    public: PublicKey,
    /// Signs tickets for relays.
    signer: SigningKey,
    /// How long they are valid, in seconds.
    ticket_life: u32,
    /// Noise static key of the coordinator's own relay.
    relay_key: PrivateKey,
    urls: Vec<String>,
    hubs: Mutex<BTreeMap<NetworkId, Arc<Hub>>>,
    /// The networks that exist: a node that names another one is a guest.
    known: Mutex<BTreeSet<NetworkId>>,
    /// Nodes that were online since "last seen" was written.
    seen: Mutex<BTreeSet<NodeId>>,
    connections: AtomicU64,
    arrivals: Arrivals,
    joins: Joins,
    /// Program versions that members said and that are not written yet.
    programs: Mutex<BTreeMap<NodeId, String>>,
    /// The coordinator's own relay, if it has one: told of each removal.
    relay: OnceLock<Removals>,
    /// Held as long as this lives: one `serve` per state directory.
    _lock: File,
}

impl State {
    /// The coordinator's private key, for the control channel's handshake.
    pub(crate) fn key(&self) -> &PrivateKey {
        &self.key
    }

    /// The private key of the coordinator's own relay.
    pub(crate) fn relay_key(&self) -> &PrivateKey {
        &self.relay_key
    }

    /// The room below, for tests that break what is in it.
    #[cfg(test)]
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// A number that no other connection has.
    pub(crate) fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether this machine, which has proven its key, may open another channel now.
    pub(crate) fn may_come(&self, machine: PublicKey) -> bool {
        self.arrivals.take(&machine, Instant::now())
    }

    /// On whose behalf a node of this network, or one that says so, is served.
    fn party(&self, network: NetworkId) -> Party {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(&network) { Party::Network(network) } else { Party::Guests }
    }

    /// The hub of a network.
    pub(crate) fn hub(&self, network: NetworkId) -> Arc<Hub> {
        let mut hubs = self.hubs.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(hubs.entry(network).or_insert_with(|| Arc::new(Hub::new())))
    }

    /// Whether the database answers, and what somebody should look at before it does not.
    pub(crate) async fn check_health(&self) -> Result<Vec<&'static str>, StateError> {
        self.store.read(Party::Guests).await?.networks().await?;
        let is_large = self.store.log_share() >= LARGE_LOG;
        Ok(is_large
            .then_some("the database's log is large: another program reads an old state of it")
            .into_iter()
            .collect())
    }

    /// Ends leases and writes "last seen", for ever; runs beside the server.
    pub(crate) async fn keep_house(&self) {
        let mut seen_at = Instant::now();
        let mut forgot_at: Option<Instant> = None;
        let mut clock = SteadyClock::default();
        loop {
            tokio::time::sleep(SWEEP_EVERY).await;
            self.sweep();
            if let Some(now) = clock.read(unix_now(), Instant::now())
                && forgot_at.is_none_or(|last| last.elapsed() >= FORGET_EVERY)
            {
                forgot_at = Some(Instant::now());
                if let Err(error) = self.forget_marks(now).await {
                    log::event("marks-not-forgotten", &[("error", &error)]);
                }
            }
            if seen_at.elapsed() >= SEEN_EVERY {
                seen_at = Instant::now();
                self.write_last_seen().await;
                self.warn_of_log();
            }
        }
    }

    /// Once a minute, before the log reaches its bound and nothing can be written (fault O4).
    fn warn_of_log(&self) {
        let share = self.store.log_share();
        if share >= LARGE_LOG {
            let todo = "end the program that reads the database (`fuser coordinator.db` shows it)";
            log::event("database-log-large", &[("percent", &share), ("do", &todo)]);
        }
    }

    /// Writes what is still in memory and closes the database.
    pub(crate) async fn close(&self) {
        self.sweep();
        self.write_last_seen().await;
        self.store.close().await;
    }

    fn sweep(&self) {
        let hubs: Vec<Arc<Hub>> = self.hubs.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for hub in hubs {
            let online = hub.online();
            for node in hub.sweep(Instant::now()) {
                log::member("offline", node, &[]);
            }
            self.seen.lock().unwrap_or_else(PoisonError::into_inner).extend(online);
        }
    }

    async fn write_last_seen(&self) {
        let seen = std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner));
        let programs = std::mem::take(&mut *self.programs.lock().unwrap_or_else(PoisonError::into_inner));
        if seen.is_empty() && programs.is_empty() {
            return;
        }
        let written = async {
            let mut tx = self.store.write(Party::House).await?;
            for node in seen {
                tx.set_last_seen(node, unix_now()).await?;
            }
            for (node, program) in &programs {
                tx.set_program(*node, program).await?;
            }
            tx.commit().await
        };
        if let Err(error) = written.await {
            log::event("last-seen-failed", &[("error", &error)]);
            let mut newer = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
            for (node, program) in programs {
                newer.entry(node).or_insert(program);
            }
        }
    }
}

/// Fresh random bits for a version.
fn random_bits() -> u32 {
    u32::from_le_bytes(random())
}
