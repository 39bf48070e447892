//! Several coordinators on one database: what each has in memory follows what the others change.
//!
//! ```text
//! commit there ──▶ hint: network N ──▶ read its view ──▶ announce its version ──▶ channels here
//! node here ──▶ Hub::untold ──▶ tell: rows of presence ──▶ hint: presence ──▶ rows after the last one read ──▶ Hub::enter_row there
//! ```
//! Rows are the truth, and hints only say when to read. After every loss of a connection everything is compared, so a lost hint delays a change and does not lose it.
//! While the database does not answer, each coordinator goes on with what it has (fault O6).

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use taut_base::NodeId;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};

use super::hub::Hub;
use super::{State, StateError};
use crate::log;
use crate::store::{Hint, NetworkId, Party, REMOVED, Replica, StoreError};

/// Time between two signs of life, 5 s. A coordinator without one for four times as long counts as dead.
const BEAT_EVERY: Duration = Duration::from_secs(5);

/// Time for which nodes that come and go are collected before the others are told, 50 ms: when many connect at once, few writes tell of all.
const TELL_EVERY: Duration = Duration::from_millis(50);

/// Signs of life between two comparisons of all presence, 12: once a minute.
const WHOLE_EVERY: u32 = 12;

/// Pause after a failure, 1 s.
const RETRY: Duration = Duration::from_secs(1);

/// Time for which the end of the program waits until the others know of it, 2 s.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);

/// Time without an answer of the database after which its rows in memory admit nobody, 5 min: another coordinator may have removed the member meanwhile.
pub(super) const MEMORY: Duration = Duration::from_secs(300);

/// The link, and how far it was followed.
struct Link {
    replica: Box<dyn Replica>,
    /// The last change of presence that was read.
    read: i64,
}

impl State {
    /// Follows the other coordinators, without end. Returns at once if there can be no others.
    pub(crate) async fn run_replica(&self) {
        let Some(replica) = self.store.replica() else {
            self.presence_known.send_replace(true);
            return;
        };
        let mut link = Link { replica, read: 0 };
        loop {
            let Err(error) = self.follow(&mut link).await;
            let reason = error.to_string();
            let before = self.unheard.lock().unwrap_or_else(PoisonError::into_inner).replace(reason.clone());
            if before.is_none() {
                tracing::warn!(target: log::DATABASE, event = "replicas-not-heard", reason);
            }
            sleep(RETRY).await;
        }
    }

    /// Waits until the nodes of other coordinators are known.
    pub(crate) async fn presence_known(&self) {
        // The sender lives as long as this.
        let _ = self.presence_known.subscribe().wait_for(|known| *known).await;
    }

    /// Tells the others that this coordinator ends.
    pub(super) async fn leave_replicas(&self) {
        if let Some(mut replica) = self.store.replica() {
            // They notice in any case.
            let _ = timeout(LEAVE_WITHIN, replica.leave()).await;
        }
    }

    async fn follow(&self, link: &mut Link) -> Result<Infallible, StateError> {
        // First of all, so that everything that happens from now on is hinted at.
        link.replica.connect().await?;
        self.beat(link).await?;
        self.compare_all().await?;
        self.follow_presence(link, true).await?;
        self.presence_known.send_replace(true);
        if self.unheard.lock().unwrap_or_else(PoisonError::into_inner).take().is_some() {
            tracing::info!(target: log::DATABASE, event = "replicas-heard");
        }
        let mut beats = interval(BEAT_EVERY);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        beats.tick().await;
        let (mut tell_at, mut count): (Option<Instant>, u32) = (None, 0);
        loop {
            let tell = async {
                match tell_at {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                hints = link.replica.hints() => {
                    if self.take_hints(hints?).await? {
                        tell_at.get_or_insert(Instant::now());
                    }
                }
                () = self.moved.notified(), if tell_at.is_none() => tell_at = Some(Instant::now() + TELL_EVERY),
                () = tell => {
                    // After a failure presence is tried again later. Maps are followed meanwhile.
                    let told = self.follow_presence(link, false).await;
                    tell_at = told.is_err().then(|| Instant::now() + RETRY);
                }
                _ = beats.tick() => {
                    self.beat(link).await?;
                    count = count.wrapping_add(1);
                    let is_due = count.is_multiple_of(WHOLE_EVERY);
                    let told = self.follow_presence(link, is_due).await;
                    tell_at = if told.is_err() { Some(Instant::now() + RETRY) } else { tell_at };
                }
            }
        }
    }

    async fn beat(&self, link: &mut Link) -> Result<(), StateError> {
        if link.replica.beat().await? {
            // Its nodes are not known, or no longer.
            self.all_hubs().values().for_each(|hub| hub.forget_told());
            self.moved.notify_one();
        }
        let here = self.relay_links.reports().into_iter();
        let said: Vec<_> = here.filter_map(|(key, report)| Some((key, serde_json::to_string(&report).ok()?))).collect();
        let elsewhere = link.replica.share_relays(&said).await?.into_iter();
        let elsewhere = elsewhere.filter_map(|(key, report)| Some((key, serde_json::from_str(&report).ok()?)));
        self.relay_links.set_elsewhere(elsewhere.collect());
        Ok(())
    }

    /// Tells the others which nodes came and went here, and reads which came and went there. `whole` compares everything.
    async fn follow_presence(&self, link: &mut Link, whole: bool) -> Result<(), StateError> {
        let followed = async {
            link.replica.forget_dead().await?;
            if whole {
                self.read_presence_whole(link).await?;
            }
            self.tell(link).await?;
            self.read_presence(link).await
        };
        let followed = followed.await;
        let reason = followed.as_ref().err().map(ToString::to_string);
        let before =
            std::mem::replace(&mut *self.untold.lock().unwrap_or_else(PoisonError::into_inner), reason.clone());
        if let (None, Some(reason)) = (before, reason) {
            tracing::warn!(target: log::DATABASE, event = "presence-not-told", reason);
        }
        followed
    }

    /// Tells the others which nodes came and went here.
    async fn tell(&self, link: &mut Link) -> Result<(), StateError> {
        let untold: Vec<_> = self.all_hubs().into_iter().map(|(id, hub)| (hub.untold(id), hub)).collect();
        let entered: Vec<_> = untold.iter().flat_map(|(untold, _)| untold.entered.iter().copied()).collect();
        let left: Vec<NodeId> = untold.iter().flat_map(|(untold, _)| untold.left.iter().copied()).collect();
        if entered.is_empty() && left.is_empty() {
            return Ok(());
        }
        let mut changes = link.replica.tell(&entered, &left).await?;
        for (untold, hub) in &untold {
            let rest = changes.split_off(untold.entered.len().min(changes.len()));
            hub.tell_done(untold, &changes);
            changes = rest;
        }
        Ok(())
    }

    /// Follows hints. Returns true if nodes came or went.
    async fn take_hints(&self, hints: Vec<Hint>) -> Result<bool, StateError> {
        let mut networks: BTreeMap<NetworkId, u64> = BTreeMap::new();
        let mut moved = false;
        for hint in hints {
            match hint {
                Hint::Network(network, version) => _ = networks.insert(network, version),
                Hint::Presence => moved = true,
            }
        }
        if !networks.is_empty() {
            self.compare_revocations().await?;
        }
        for (network, version) in networks {
            self.compare(network, Some(version)).await?;
        }
        Ok(moved)
    }

    /// Reads what changed of the presence of nodes.
    async fn read_presence(&self, link: &mut Link) -> Result<(), StateError> {
        for row in link.replica.presence_since(link.read).await? {
            link.read = row.change;
            self.hub(row.network).enter_row(&row, link.replica.id());
        }
        Ok(())
    }

    /// Reads the presence of all nodes.
    async fn read_presence_whole(&self, link: &mut Link) -> Result<(), StateError> {
        let (rows, here) = (link.replica.presence_since(0).await?, link.replica.id());
        let mut elsewhere: BTreeMap<NetworkId, BTreeSet<NodeId>> = BTreeMap::new();
        let mut own: BTreeMap<NetworkId, BTreeSet<NodeId>> = BTreeMap::new();
        for row in &rows {
            if row.replica == Some(here) {
                own.entry(row.network).or_default().insert(row.node);
            }
            if row.replica.is_some_and(|replica| replica != here) {
                elsewhere.entry(row.network).or_default().insert(row.node);
            }
            self.hub(row.network).enter_row(row, here);
        }
        link.read = rows.last().map_or(0, |row| row.change);
        for (network, hub) in self.all_hubs() {
            let none = BTreeSet::new();
            hub.keep_elsewhere(elsewhere.get(&network).unwrap_or(&none));
            // Somebody emptied the table.
            hub.keep_told(own.get(&network).unwrap_or(&none));
        }
        Ok(())
    }

    /// Compares all networks with the database.
    async fn compare_all(&self) -> Result<(), StateError> {
        let rows = self.store.read(Party::Coordinator).await?.networks().await?;
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = rows.iter().map(|row| row.id).collect();
        for network in self.all_hubs().into_keys() {
            self.compare(network, None).await?;
        }
        self.compare_revocations().await
    }

    /// Compares a network with the database, and announces what is new to its channels. `version` is a hint at its version.
    async fn compare(&self, network: NetworkId, version: Option<u64>) -> Result<(), StateError> {
        let is_known = |state: &Self| state.known.lock().unwrap_or_else(PoisonError::into_inner).contains(&network);
        if !is_known(self) || version == Some(REMOVED) {
            self.learn(network).await?;
        }
        let Some(hub) = self.all_hubs().remove(&network) else { return Ok(()) };
        let feed = hub.feed();
        if version.is_some() && feed.latest().is_some_and(|view| Some(view.version()) == version) {
            return Ok(());
        }
        // Also without channels: a node that connects at this moment may be reading what was before the change.
        feed.distrust();
        if hub.channels() == 0 {
            return Ok(());
        }
        match self.latest_view(network).await {
            Ok(view) => hub.announce(view.version()),
            // It was removed. Its channels learn that from the database.
            Err(StateError::NotAMember) => {
                self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&network);
                feed.clear();
                hub.announce(hub.announced().saturating_add(1));
            }
            Err(StateError::Store(error)) if error.is_silence() => return Err(error.into()),
            // One network whose rows are damaged does not keep the others from being followed (fault N7).
            Err(error) => {
                tracing::warn!(target: log::DATABASE, limited = 0, event = "network-not-compared", %network, reason = %error);
            }
        }
        Ok(())
    }

    /// Learns whether a network exists, of which this coordinator may have no channel.
    async fn learn(&self, network: NetworkId) -> Result<(), StateError> {
        let exists = match self.store.read(Party::Coordinator).await?.network(network).await {
            Ok(row) => row.is_some(),
            Err(error) if error.is_silence() => return Err(error.into()),
            // Its row is damaged (fault O9).
            Err(_) => false,
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if exists {
            known.insert(network)
        } else {
            known.remove(&network)
        };
        drop(known);
        if !exists {
            let mut hubs = self.hubs.lock().unwrap_or_else(PoisonError::into_inner);
            if hubs.get(&network).is_some_and(|hub| hub.channels() == 0) {
                hubs.remove(&network);
            }
        }
        Ok(())
    }

    fn all_hubs(&self) -> BTreeMap<NetworkId, Arc<Hub>> {
        self.hubs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns a warning while the other coordinators are not heard. Without the reason, which may contain names of hosts and users: anyone may ask for it.
    pub(super) fn unheard(&self) -> Option<&'static str> {
        let is_set = |why: &Mutex<Option<String>>| why.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if is_set(&self.unheard) {
            return Some("other coordinators are not heard; the log has the reason (`replicas-not-heard`)");
        }
        is_set(&self.untold).then_some(
            "who is online at which coordinator is not up to date; the log has the reason (`presence-not-told`)",
        )
    }

    /// Returns true while the rows in memory may stand for those of a database that does not answer.
    pub(super) fn may_remember(&self, error: &StoreError) -> bool {
        error.is_silence() && self.store.silence() < MEMORY
    }
}
