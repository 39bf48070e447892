//! Relays that have a channel to a coordinator, and their last reports.
//!
//! A relay has one channel here at a time: a newer one replaces the older one. Where several coordinators serve one database, each passes the reports of its
//! relays to the others (`replicas`), so that an operator gets the same list from all.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use taut_base::PublicKey;
use taut_netmap::RelayLoad;
use tokio::sync::oneshot;

use super::admission::printable;
use super::{State, StateError, random_bits};
use crate::clock::unix_now;
use crate::log;
use crate::store::{NetworkId, Party};

/// Channels of relays at one coordinator, 1,024. An operator added each of these relays.
const MOST: usize = 1_024;

/// Load from which a relay counts as busy, and below which it no longer does, in thousandths. The gap is what a region's nodes may vary within minutes.
const BUSY_FROM: u32 = 850;
const BUSY_UNTIL: u32 = 650;

/// Least time between two changes of whether a relay is busy, 30 s: each changes the maps of all networks that list the relay.
const BUSY_EVERY: Duration = Duration::from_secs(30);

/// The last report of a relay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RelayReport {
    /// Version of its program.
    pub(crate) version: String,
    /// `None` before its first report.
    pub(crate) load: Option<RelayLoad>,
    /// Time of the report, in seconds since 1970.
    pub(crate) told_at: i64,
}

/// Relays with a channel to a coordinator.
#[derive(Default)]
pub(super) struct RelayLinks {
    here: Mutex<BTreeMap<PublicKey, Link>>,
    elsewhere: Mutex<BTreeMap<PublicKey, RelayReport>>,
    /// Time at which each relay's busy state was last stored. It outlives channels, so that a reconnect allows no earlier write. Contains only relays that a network lists.
    busy_at: Mutex<BTreeMap<PublicKey, Instant>>,
}

struct Link {
    number: u64,
    report: RelayReport,
    /// Dropping it tells the channel that a newer one replaced it.
    _alive: oneshot::Sender<Infallible>,
    is_busy: Option<bool>,
}

/// A relay's channel among the others. Dropping it removes it.
pub(crate) struct RelayMembership {
    state: Arc<State>,
    key: PublicKey,
    number: u64,
    /// Ends when a newer channel of the same relay replaces this one.
    pub(crate) replaced: oneshot::Receiver<Infallible>,
}

impl RelayLinks {
    fn here(&self) -> MutexGuard<'_, BTreeMap<PublicKey, Link>> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn busy_at(&self) -> MutexGuard<'_, BTreeMap<PublicKey, Instant>> {
        self.busy_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn elsewhere(&self) -> MutexGuard<'_, BTreeMap<PublicKey, RelayReport>> {
        self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the last reports of the relays with a channel here.
    pub(super) fn reports(&self) -> Vec<(PublicKey, RelayReport)> {
        self.here().iter().map(|(key, link)| (*key, link.report.clone())).collect()
    }

    /// Replaces the reports of relays with a channel to another coordinator.
    pub(super) fn set_elsewhere(&self, reports: BTreeMap<PublicKey, RelayReport>) {
        *self.elsewhere() = reports;
    }

    /// Returns the last report of a relay; `None` if it has no channel to any coordinator.
    pub(super) fn report(&self, key: &PublicKey) -> Option<RelayReport> {
        let here = self.here().get(key).map(|link| link.report.clone());
        here.or_else(|| self.elsewhere().get(key).cloned())
    }

    /// Returns the number of relays with a channel here.
    pub(super) fn count(&self) -> usize {
        self.here().len()
    }

    /// Notes a load. Returns whether the relay is busy, if that has to be stored.
    fn note(&self, key: PublicKey, number: u64, load: RelayLoad, now: Instant) -> Option<bool> {
        let mut here = self.here();
        let link = here.get_mut(&key).filter(|link| link.number == number)?;
        link.report.load = Some(load);
        link.report.told_at = unix_now();
        let is_busy = match load.thousandths() {
            BUSY_FROM.. => true,
            ..BUSY_UNTIL => false,
            _ => link.is_busy?,
        };
        let is_early = self.busy_at().get(&key).is_some_and(|at| now.duration_since(*at) < BUSY_EVERY);
        (link.is_busy != Some(is_busy) && !is_early).then_some(is_busy)
    }

    /// Notes the busy state that is stored now. `changed_at` is the time of the write if the state changed.
    fn set_busy(&self, key: PublicKey, is_busy: bool, changed_at: Option<Instant>) {
        if let Some(link) = self.here().get_mut(&key) {
            link.is_busy = Some(is_busy);
        }
        if let Some(now) = changed_at {
            let mut busy_at = self.busy_at();
            busy_at.retain(|_, at| now.duration_since(*at) < BUSY_EVERY);
            busy_at.insert(key, now);
        }
    }
}

impl State {
    /// Returns the networks that list a relay with this key.
    ///
    /// # Errors
    /// [`StateError::UnknownRelay`] if there is none.
    pub(crate) async fn networks_of_relay(&self, key: PublicKey) -> Result<Vec<NetworkId>, StateError> {
        let networks = self.store.read(Party::Unauthenticated).await?.networks_of_relay(key).await?;
        if networks.is_empty() { Err(StateError::UnknownRelay(key)) } else { Ok(networks) }
    }

    /// Returns the number of relays with a channel here.
    pub(crate) fn relay_channels(&self) -> usize {
        self.relay_links.count()
    }

    /// Enters a relay's channel. Returns `None` if there are too many.
    pub(crate) fn enter_relay(self: &Arc<Self>, key: PublicKey, version: &str) -> Option<RelayMembership> {
        let number = self.next_connection();
        let (alive, replaced) = oneshot::channel();
        let mut here = self.relay_links.here();
        if here.len() >= MOST && !here.contains_key(&key) {
            return None;
        }
        let report = RelayReport { version: printable(version), load: None, told_at: unix_now() };
        here.insert(key, Link { number, report, _alive: alive, is_busy: None });
        drop(here);
        Some(RelayMembership { state: Arc::clone(self), key, number, replaced })
    }
}

impl RelayMembership {
    /// Notes the relay's load. Stores whether it is busy if that changed, which changes the maps of all networks that list it.
    pub(crate) async fn note(&self, load: RelayLoad) -> Result<(), StateError> {
        let now = Instant::now();
        let links = &self.state.relay_links;
        let Some(is_busy) = links.note(self.key, self.number, load, now) else { return Ok(()) };
        let mut tx = self.state.store.write(Party::Coordinator).await?;
        let mut versions = Vec::new();
        for network in tx.set_relay_busy(self.key, is_busy).await? {
            let version = tx.next_version(network, random_bits()).await?;
            tx.set_relays_version(network, version).await?;
            versions.push((network, version));
        }
        tx.commit().await?;
        let is_change = !versions.is_empty();
        links.set_busy(self.key, is_busy, is_change.then_some(now));
        if is_change {
            let (key, load) = (self.key, load.thousandths());
            tracing::info!(target: log::RELAY, event = "relay-busy", relay = %key, busy = is_busy, load);
        }
        for (network, version) in versions {
            self.state.hub(network).announce(version);
        }
        Ok(())
    }
}

impl Drop for RelayMembership {
    fn drop(&mut self) {
        let mut here = self.state.relay_links.here();
        if here.get(&self.key).is_some_and(|link| link.number == self.number) {
            here.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link() -> (RelayLinks, PublicKey) {
        let (links, key) = (RelayLinks::default(), PublicKey([1; 32]));
        let link = Link { number: 1, report: RelayReport::default(), _alive: oneshot::channel().0, is_busy: None };
        links.here().insert(key, link);
        (links, key)
    }

    fn load(clients: u64) -> RelayLoad {
        RelayLoad { clients, clients_max: 1_000, ..RelayLoad::default() }
    }

    #[test]
    fn a_relay_is_busy_from_a_high_load_until_a_much_lower_one_and_does_not_flap() {
        let ((links, key), start) = (link(), Instant::now());
        assert_eq!(links.note(key, 1, load(700), start), None, "neither, and nothing is known");
        assert_eq!(links.note(key, 1, load(900), start), Some(true));
        links.set_busy(key, true, Some(start));
        assert_eq!(links.note(key, 1, load(700), start + 2 * BUSY_EVERY), None, "it stays busy");
        assert_eq!(links.note(key, 1, load(600), start + BUSY_EVERY / 2), None, "too early");
        assert_eq!(links.note(key, 1, load(600), start + BUSY_EVERY), Some(false));
        assert_eq!(links.note(key, 2, load(950), start + 3 * BUSY_EVERY), None, "of a channel that was replaced");
    }

    #[test]
    fn a_report_here_counts_more_than_one_elsewhere() {
        let (links, key) = link();
        let other = RelayReport { version: String::from("9"), ..RelayReport::default() };
        links.set_elsewhere([(key, other.clone()), (PublicKey([2; 32]), other.clone())].into());
        assert_eq!(links.report(&key), Some(RelayReport::default()));
        assert_eq!(links.report(&PublicKey([2; 32])), Some(other));
        assert_eq!(links.report(&PublicKey([3; 32])), None);
    }
}
