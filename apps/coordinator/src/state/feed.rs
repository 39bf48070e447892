//! One network as the latest read of its rows shows it, shared by all channels: maps and deltas are made from memory.
//!
//! ```text
//! commit ──▶ Hub::announce(version) ──▶ each channel: State::update_for ──▶ the first one reads what changed, the others wait for it or find it
//!                                                              │
//!                                                              └──▶ View: members by number, what changed by version, deltas that were made already
//! ```
//! The rows are the truth, and a view is never changed: a later read makes the next view, which shares the members that did not change. A read that fails
//! leaves the last view in force (law 6). Nobody waits for the database because another network has many members: each network has its own feed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use taut_base::{NodeId, PublicKey};
use taut_netmap::{LocalMember, Naming, NetworkInfo, Peer, Relay};
use taut_policy::Filter;

use super::audience::Audience;
use super::enforced::{Enforced, ToEnforce};
use super::people::{GroupsOf, users_of_policy};
use super::policy_threads::PolicyThreads;
use super::{StateError, maps, relays};
use crate::store::{NetworkId, NetworkRow, NodeRow, NodeRows, Part, Reading, StoreError};

/// Time after which a view is compared with the database although no change was announced, 5 s: another program may have written to it.
const COMPARE_EVERY: Duration = Duration::from_secs(5);

/// Versions since which a view knows all changes, 4,096: as many as the database keeps. A node with an older one gets the whole map.
const KEPT_VERSIONS: usize = 4096;

/// Time after a panic, or a policy that cannot be applied, for which the network's rows are not read again, 5 s: what failed once fails again, and thousands of channels
/// would try.
pub(crate) const PANIC_PAUSE: Duration = Duration::from_secs(5);

/// Deltas that a view keeps, 16. Nearly all channels of a network ask for the changes since the last version or one of the few before it.
const KEPT_DELTAS: usize = 16;

/// The feed of one network.
#[derive(Default)]
pub(super) struct Feed {
    /// The latest view, and when the database was asked last.
    latest: Mutex<Option<(Arc<View>, Instant)>>,
    /// How often the view was distrusted. A read that began before the last time may have missed the change that caused the distrust.
    doubts: AtomicU64,
    /// When a read of the database last failed for a reason that lasts.
    failed: Mutex<Option<Instant>>,
    /// Held while the database is read, so that channels that need the same view read it once.
    reading: tokio::sync::Mutex<()>,
}

/// When a read of the database began, seen from the feed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadMark(u64);

/// A message for a node, ready to be sealed.
pub(crate) struct Update {
    /// The JSON of a `map` or a `delta`; `None` for a node that has no map and takes no part in the network.
    pub(crate) message: Option<Arc<[u8]>>,
    /// Version of the map that the node has then.
    pub(crate) version: u64,
    /// True for a whole map.
    pub(crate) is_whole: bool,
    /// The node's part in the network.
    pub(crate) part: Part,
    /// Time at which the node's membership expires, in seconds since 1970; `None` for never.
    pub(crate) expires_at: Option<i64>,
}

/// One network at one version.
pub(super) struct View {
    rows: Rows,
    info: NetworkInfo,
    /// The same without the names that the operator chose, for nodes that take no part.
    bare: NetworkInfo,
    /// The policy, applied to the members.
    enforced: Arc<Enforced>,
    /// The versions of this view and of those before it. Another coordinator may have made maps of other versions, with wider filters that were narrowed again before
    /// this coordinator read the rows: no comparison of two views tells whether a node with such a map needs another filter.
    seen: BTreeSet<u64>,
    /// Deltas that were made, by the version that they begin with and their audience.
    deltas: Mutex<BTreeMap<(u64, Audience), Arc<SharedDelta>>>,
}

/// The rows of a network at one version.
#[derive(Clone)]
struct Rows {
    network: NetworkRow,
    members: BTreeMap<NodeId, Arc<Member>>,
    /// The nodes that changed or were removed, by version.
    changed: BTreeMap<u64, Vec<NodeId>>,
    /// The versions since which all changes are known.
    history: BTreeSet<u64>,
    relays: Vec<Relay>,
    /// Members whose row is damaged, or has the key or an address of another one: they are in no map, and get none (fault O9).
    isolated: BTreeSet<NodeId>,
}

/// The result of a read of the database. It becomes a [`View`] when its policy is applied, which needs no database.
pub(super) struct Draft {
    rows: Rows,
    policy: DraftPolicy,
    /// The versions of the views that this one continues.
    seen: BTreeSet<u64>,
}

enum DraftPolicy {
    /// The result of an earlier view, which is still valid.
    Applied(Arc<Enforced>),
    ToApply(Box<ToEnforce>),
}

/// A member, and its peers' view of it.
struct Member {
    row: NodeRow,
    /// The JSON of the peer; `None` if its row is damaged, so that it is missing in the maps of others and gets none itself (fault E10).
    peer: Option<Box<RawValue>>,
    /// The JSON of an exit node for peers that may not use it; `None` for other nodes.
    without_exit: Option<Box<RawValue>>,
}

impl Member {
    /// Returns the JSON of the peer as an audience knows it; `None` if its row is damaged.
    fn shown_to(&self, audience: Audience, enforced: &Enforced) -> Option<&RawValue> {
        match &self.without_exit {
            Some(plain) if !audience.may_use_exit(&self.row, enforced) => Some(plain),
            _ => self.peer.as_deref(),
        }
    }
}

/// A delta that is the same for all nodes of an audience that it does not contain.
struct SharedDelta {
    contains: BTreeSet<NodeId>,
    message: Arc<[u8]>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum Message<'a> {
    Map {
        version: u64,
        network: &'a NetworkInfo,
        me: LocalMember,
        peers: Vec<&'a RawValue>,
        #[serde(skip_serializing_if = "<[Relay]>::is_empty")]
        relays: &'a [Relay],
        #[serde(skip_serializing_if = "Option::is_none")]
        filter: Option<Filter>,
    },
    Delta {
        from: u64,
        to: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        me: Option<LocalMember>,
        upserts: Vec<&'a RawValue>,
        removes: Vec<NodeId>,
        #[serde(skip_serializing_if = "Option::is_none")]
        relays: Option<&'a [Relay]>,
        #[serde(skip_serializing_if = "Option::is_none")]
        filter: Option<Filter>,
        #[serde(skip_serializing_if = "Option::is_none")]
        naming: Option<&'a Naming>,
    },
}

impl Feed {
    /// Returns the latest view if it has at least this version and was compared with the database lately.
    pub(super) fn recent(&self, version: u64) -> Option<Arc<View>> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let (view, asked) = latest.as_ref()?;
        (view.version() >= version && asked.elapsed() < COMPARE_EVERY).then(|| Arc::clone(view))
    }

    pub(super) fn latest(&self) -> Option<Arc<View>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|(view, _)| Arc::clone(view))
    }

    /// Returns the mark of a read that begins now.
    pub(super) fn begin_read(&self) -> ReadMark {
        ReadMark(self.doubts.load(Ordering::SeqCst))
    }

    /// Keeps the view of a read. If the feed was distrusted after the read began, the view is compared with the database when it is needed next.
    pub(super) fn set(&self, view: &Arc<View>, read: ReadMark) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some((Arc::clone(view), Instant::now()));
        if read != self.begin_read() {
            self.age();
        }
    }

    /// Returns true if a read failed a moment ago for a reason that lasts (fault N7).
    pub(super) fn is_pausing(&self) -> bool {
        let failed = *self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.is_some_and(|at| at.elapsed() < PANIC_PAUSE)
    }

    /// Notes that a read failed for a reason that lasts.
    pub(super) fn pause(&self) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Has the view compared with the database when it is needed next, also a view that is being read now.
    pub(super) fn distrust(&self) {
        self.doubts.fetch_add(1, Ordering::SeqCst);
        self.age();
    }

    fn age(&self) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, asked)) = latest.as_mut()
            && let Some(long_ago) = Instant::now().checked_sub(COMPARE_EVERY)
        {
            *asked = long_ago;
        }
    }

    /// Waits for its turn to read the database.
    pub(super) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.reading.lock().await
    }

    #[cfg(test)]
    pub(super) fn blocking_turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.reading.blocking_lock()
    }

    /// Forgets the view: no channel needs it.
    pub(super) fn clear(&self) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Draft {
    /// Reads a whole network. The map of one member has passed the check that nodes make; the others' maps differ from it in that member alone.
    pub(super) async fn load(tx: &mut Reading, id: NetworkId) -> Result<Self, StateError> {
        let rows = Rows::load(tx, id).await?;
        let policy = rows.policy(tx, None).await?;
        Ok(Self { rows, policy, seen: BTreeSet::new() })
    }

    /// Applies the policy. It may take seconds.
    pub(super) async fn finished(self, threads: &PolicyThreads) -> Result<View, StateError> {
        let Self { rows, policy, mut seen } = self;
        let enforced = match policy {
            DraftPolicy::Applied(enforced) => enforced,
            DraftPolicy::ToApply(to_enforce) => Arc::new(threads.for_maps(|| to_enforce.done()).await?),
        };
        seen.insert(rows.network.version);
        seen.retain(|version| rows.history.contains(version));
        let info = maps::info(&rows.network);
        let bare = NetworkInfo { naming: Naming::default(), ..info.clone() };
        Ok(View { info, bare, rows, enforced, seen, deltas: Mutex::default() })
    }
}

impl Rows {
    async fn load(tx: &mut Reading, id: NetworkId) -> Result<Self, StateError> {
        let network = tx.network(id).await?.ok_or(StateError::NotAMember)?;
        let history: BTreeSet<u64> = tx.history_since(id, 0).await?.into_iter().collect();
        let NodeRows { valid: rows, damaged } = tx.members(id).await?;
        let relays = relays::of(tx, &network).await?;
        if !maps::is_valid(&network) {
            tx.note_damaged("networks", &id, maps::BAD_NETWORK);
        }
        let faults = maps::faults(&network, &rows);
        faults.iter().for_each(|(node, fault)| tx.note_damaged("nodes", node, fault.what()));
        let doubles = faults.iter().filter(|(_, fault)| fault.is_double()).map(|(node, _)| *node);
        let isolated: BTreeSet<NodeId> = damaged.into_iter().chain(doubles).collect();
        if let Some(first) = rows.iter().find(|row| !faults.contains_key(&row.id)) {
            maps::whole(&network, first.id, &rows, &isolated, relays.clone())?;
        }
        let mut all = Self { network, members: BTreeMap::new(), changed: BTreeMap::new(), history, relays, isolated };
        let oldest = all.history.first().copied().unwrap_or(u64::MAX);
        rows.into_iter().for_each(|row| all.take(row, oldest));
        let removed = tx.nodes_since(id, oldest).await?.valid.into_iter().filter(|row| row.removed);
        removed.for_each(|row| all.take(row, oldest));
        Ok(all)
    }

    /// Returns the policy in force for these members. Most changes are about endpoints, which no policy speaks of: then the result of the view before stays.
    async fn policy(&self, tx: &mut Reading, before: Option<&View>) -> Result<DraftPolicy, StateError> {
        let id = self.network.id;
        let has_new_users = before.is_some_and(|view| self.network.groups_version > view.version());
        let before = before.map(|view| (Arc::clone(&view.enforced), self.changed_since(view.version())));
        if let Some((enforced, changed)) = &before {
            let is_same = !has_new_users && tx.policy_number(id).await? == enforced.number();
            if is_same && changed.iter().all(|id| enforced.knows(*id, self.sound(*id))) {
                return Ok(DraftPolicy::Applied(Arc::clone(enforced)));
            }
        }
        let policy = tx.policy(id).await?.ok_or(StoreError::Damaged("a network without a policy"))?;
        let users = users_of_policy(tx, id, GroupsOf::Owners).await?;
        let sound = self.members.keys().filter_map(|id| self.sound(*id));
        Ok(DraftPolicy::ToApply(Box::new(ToEnforce::new(&self.network, policy, sound, users, before))))
    }

    /// Returns the row of a member that is not isolated.
    fn sound(&self, id: NodeId) -> Option<&NodeRow> {
        let member = self.members.get(&id).filter(|_| !self.isolated.contains(&id));
        member.map(|member| &member.row)
    }

    /// Enters a row that changed after `since`, or earlier.
    fn take(&mut self, row: NodeRow, since: u64) {
        #[cfg(test)]
        super::poison::panic_at(&row.name, "poison-row");
        if row.version > since {
            self.changed.entry(row.version).or_default().push(row.id);
        }
        if row.removed {
            self.members.remove(&row.id);
            return;
        }
        let is_sound = !self.isolated.contains(&row.id) && maps::is_sound(&self.network, &row);
        let shown = is_sound.then(|| maps::peer(&row));
        let json = |peer: &Peer| to_raw_value(peer).ok();
        let peer = shown.as_ref().and_then(json);
        let without_exit = shown.filter(Peer::is_exit).and_then(|peer| json(&maps::without_exit(&peer)));
        self.members.insert(row.id, Arc::new(Member { row, peer, without_exit }));
    }

    fn changed_since(&self, from: u64) -> BTreeSet<NodeId> {
        self.changed.range(from + 1..).flat_map(|(_, nodes)| nodes).copied().collect()
    }
}

impl View {
    /// Reads what changed since this view; `None` if nothing did.
    pub(super) async fn next(&self, tx: &mut Reading) -> Result<Option<Draft>, StateError> {
        let (id, version) = (self.rows.network.id, self.version());
        let network = tx.network(id).await?.ok_or(StateError::NotAMember)?;
        if network.version == version {
            return Ok(None);
        }
        let newer = tx.history_since(id, version).await?;
        if network.version < version || newer.first() != Some(&version) {
            // The database was replaced, or more happened than the history keeps.
            return Draft::load(tx, id).await.map(Some);
        }
        let changed = tx.nodes_since(id, version).await?;
        if !self.rows.isolated.is_empty() || !changed.damaged.is_empty() {
            return self.reload(tx).await.map(Some);
        }
        let mut rows = self.rows.clone();
        if network.relays_version > version {
            rows.relays = relays::of(tx, &network).await?;
        }
        rows.network = network;
        rows.history.extend(newer);
        changed.valid.into_iter().for_each(|row| rows.take(row, version));
        let policy = rows.policy(tx, Some(self)).await?;
        while rows.history.len() > KEPT_VERSIONS {
            rows.history.pop_first();
        }
        if let Some(oldest) = rows.history.first() {
            rows.changed = rows.changed.split_off(oldest);
        }
        Ok(Some(Draft { rows, policy, seen: self.seen.clone() }))
    }

    /// Reads the whole network again, because a damaged row may be valid since another row changed, or no longer: no change of versions tells that, so every node
    /// gets a whole map then.
    async fn reload(&self, tx: &mut Reading) -> Result<Draft, StateError> {
        let mut rows = Rows::load(tx, self.rows.network.id).await?;
        if rows.isolated == self.rows.isolated {
            let policy = rows.policy(tx, Some(self)).await?;
            return Ok(Draft { rows, policy, seen: self.seen.clone() });
        }
        let latest = rows.network.version;
        rows.history.retain(|version| *version == latest);
        let policy = rows.policy(tx, None).await?;
        Ok(Draft { rows, policy, seen: BTreeSet::new() })
    }

    pub(super) fn version(&self) -> u64 {
        self.rows.network.version
    }

    /// Returns the policy in force, applied to the members.
    pub(super) fn enforced(&self) -> &Enforced {
        &self.enforced
    }

    /// Returns the row of a member.
    pub(super) fn row(&self, node: NodeId) -> Option<&NodeRow> {
        self.rows.members.get(&node).map(|member| &member.row)
    }

    /// Returns the rows of all members, by number.
    pub(super) fn rows(&self) -> impl Iterator<Item = &NodeRow> {
        self.rows.members.values().map(|member| &member.row)
    }

    /// Returns the row of a machine that is a member.
    pub(super) fn member(&self, machine: PublicKey) -> Option<&NodeRow> {
        self.rows().find(|row| row.machine_key == machine)
    }

    /// Returns true if the node seems to know more than this view: it joined, or got its map, at another coordinator a moment ago.
    pub(super) fn is_behind(&self, node: NodeId, have: u64) -> bool {
        self.rows.network.version < have
            || !(self.rows.members.contains_key(&node) || self.rows.isolated.contains(&node))
    }

    /// Returns what a node with version `have` is missing: the changes, or the whole map if they are not known any more.
    pub(super) fn update(&self, node: NodeId, have: u64) -> Result<Update, StateError> {
        if self.rows.isolated.contains(&node) {
            return Err(StateError::Unsound(node));
        }
        let own = self.rows.members.get(&node).ok_or(StateError::NotAMember)?;
        if own.peer.is_none() {
            return Err(StateError::Unsound(node));
        }
        #[cfg(test)]
        super::poison::panic_at(&own.row.name, "poison-map");
        let device = &own.row.device;
        let (part, expires_at) = (device.part(), device.expires_at);
        // A node that ceases to take part gets a map without peers, also if nothing else changed.
        let is_unknown = !self.enforced.is_open() && !self.seen.contains(&have);
        let sees_others = part == Part::Takes && (is_unknown || self.enforced.has_other_peers(node, have));
        let is_whole = device.part_version > have || !self.rows.history.contains(&have) || sees_others;
        let message = match (is_whole, part) {
            _ if have == 0 && part != Part::Takes => None,
            (true, _) => Some(self.map(own)?),
            (false, _) => Some(self.delta(own, have)?),
        };
        Ok(Update { message, version: self.rows.network.version, is_whole, part, expires_at })
    }

    fn map(&self, own: &Member) -> Result<Arc<[u8]>, StateError> {
        let audience = Audience::of(&own.row, &self.enforced);
        let is_shown =
            |member: &&Arc<Member>| member.row.id != own.row.id && audience.sees(&member.row, &self.enforced);
        let others = self.rows.members.values().filter(is_shown);
        json(&Message::Map {
            version: self.rows.network.version,
            network: if audience == Audience::Outside { &self.bare } else { &self.info },
            me: maps::me_of(&own.row),
            peers: others.filter_map(|member| member.shown_to(audience, &self.enforced)).collect(),
            relays: if audience == Audience::Outside { &[] } else { &self.rows.relays },
            filter: Some(self.enforced.filter(own.row.id)),
        })
    }

    fn delta(&self, own: &Member, from: u64) -> Result<Arc<[u8]>, StateError> {
        let audience = Audience::of(&own.row, &self.enforced);
        if matches!(audience, Audience::Alone(_)) || self.enforced.has_new_filter(own.row.id, from) {
            return self.delta_for(Some(own), audience, from, &self.rows.changed_since(from));
        }
        let mut deltas = self.deltas.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = match deltas.get(&(from, audience)) {
            Some(shared) => Arc::clone(shared),
            None => {
                let contains = self.rows.changed_since(from);
                let message = self.delta_for(None, audience, from, &contains)?;
                let shared = Arc::new(SharedDelta { contains, message });
                if deltas.len() >= KEPT_DELTAS {
                    // The oldest ones are asked for least.
                    deltas.pop_first();
                }
                deltas.insert((from, audience), Arc::clone(&shared));
                shared
            }
        };
        drop(deltas);
        if shared.contains.contains(&own.row.id) {
            return self.delta_for(Some(own), audience, from, &shared.contains);
        }
        Ok(Arc::clone(&shared.message))
    }

    /// Makes the delta for a node that changed itself, or for all others of its audience.
    fn delta_for(
        &self,
        own: Option<&Member>,
        audience: Audience,
        from: u64,
        changed: &BTreeSet<NodeId>,
    ) -> Result<Arc<[u8]>, StateError> {
        let (mut upserts, mut removes) = (Vec::new(), Vec::new());
        let is_inside = audience != Audience::Outside;
        for id in changed.iter().filter(|id| is_inside && own.is_none_or(|own| own.row.id != **id)) {
            let shown = self.rows.members.get(id).filter(|member| audience.sees(&member.row, &self.enforced));
            match shown.and_then(|member| member.shown_to(audience, &self.enforced)) {
                Some(peer) => upserts.push(peer),
                None => removes.push(*id),
            }
        }
        let has_other = |own: &&Member| self.enforced.has_new_filter(own.row.id, from);
        let filter = own.filter(has_other).map(|own| self.enforced.filter(own.row.id));
        json(&Message::Delta {
            from,
            to: self.rows.network.version,
            me: own.map(|own| maps::me_of(&own.row)),
            upserts,
            removes,
            relays: (is_inside && self.rows.network.relays_version > from).then_some(&self.rows.relays),
            filter,
            naming: (is_inside && self.rows.network.names_version > from).then_some(&self.info.naming),
        })
    }
}

fn json(message: &Message<'_>) -> Result<Arc<[u8]>, StateError> {
    serde_json::to_vec(message).map(Arc::from).map_err(|_| StateError::Store(StoreError::Damaged("a member")))
}
