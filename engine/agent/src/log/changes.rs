//! The differences between two network maps, as events.

use taut_base::{NodeId, encode_base64};
use taut_netmap::{Naming, NetworkMap, Peer};
use taut_node::Clocks;

use super::{EventSource, Log, Value, kind};

/// Limit on the changed peers of one map that get an event each, 10. If more changed, only their number is recorded.
const MAX_NAMED: usize = 10;

/// Longest name of the operator that an event has, 253 characters: a domain (RFC 1035 section 2.3.4).
const MAX_DOMAIN: usize = 253;

/// Records the differences between `old` and `new`. They count for the membership, because one member can cause any number of them. Without `old`, the event says that the node has its first map.
pub(crate) fn note_map(log: &mut Log, old: Option<&NetworkMap>, new: &NetworkMap, clocks: Clocks) {
    let number = |count: usize| Value::Number(count as u64);
    let changes = old.map_or_else(MapDifference::default, |old| MapDifference::between(old, new));
    let is_news = old.is_none_or(|old| !changes.is_empty() || old.relays != new.relays);
    let version = Value::Number(new.version);
    if is_news {
        let counts = [changes.added.len(), changes.removed.len(), changes.changed.len()];
        let [added, removed, changed] = counts.map(|count| if old.is_some() { number(count) } else { Value::None });
        let values = [version, number(new.peers.len()), added, removed, changed, number(new.relays.len())];
        let kind = if old.is_some() { &kind::MAP_CHANGED } else { &kind::MAP_FIRST };
        log.record(kind, EventSource::Membership, &values, clocks);
    } else {
        log.record(&kind::MAP_UPDATED, EventSource::Membership, &[version, number(changes.moved)], clocks);
    }
    if let Some(filter) = new.filter.as_ref().filter(|filter| old.is_none_or(|old| old.filter.as_ref() != Some(filter)))
    {
        log.record(&kind::FILTER_CHANGED, EventSource::Membership, &[number(filter.rules.len())], clocks);
    }
    if old.map_or(!new.network.naming.is_default(), |old| old.network.naming != new.network.naming) {
        let default = Naming::default();
        let before = old.map_or(&default, |old| &old.network.naming);
        let [added, removed] = [missing(&new.network.naming, before), missing(before, &new.network.naming)];
        log.record(&kind::NAMES_CHANGED, EventSource::Membership, &[added, removed], clocks);
    }
    let added = changes.added.iter().map(|peer| peer.id.0);
    log.note_new_peers(added, |number| new.peers.contains_key(&NodeId(number)), clocks.now);
    if changes.added.len() + changes.removed.len() + changes.changed.len() > MAX_NAMED {
        return;
    }
    for (peers, kind) in [(&changes.added, &kind::PEER_ADDED), (&changes.removed, &kind::PEER_REMOVED)] {
        for peer in peers {
            log.record(kind, EventSource::Membership, &[Value::text(&peer.name)], clocks);
        }
    }
    for (before, now) in &changes.changed {
        note_peer(log, before, now, clocks);
    }
}

/// Returns the names of the operator that the other choice has not, or has with other addresses.
fn missing(naming: &Naming, other: &Naming) -> Value {
    let base = naming.base_domain.iter().filter(|_| naming.base_domain != other.base_domain);
    let records = naming.records.iter().filter(|record| !other.records.contains(record)).map(|record| &record.name);
    let domains = naming.domains.iter().filter(|split| !other.domains.contains(split)).map(|split| &split.domain);
    let all: Vec<&String> = base.chain(records).chain(domains).collect();
    let mut named: Vec<String> =
        all.iter().take(MAX_NAMED).map(|name| name.chars().take(MAX_DOMAIN).collect()).collect();
    if all.len() > MAX_NAMED {
        named.push(format!("and {} more", all.len() - MAX_NAMED));
    }
    listed(&named)
}

fn note_peer(log: &mut Log, before: &Peer, now: &Peer, clocks: Clocks) {
    let (source, name) = (EventSource::Membership, || Value::text(&now.name));
    if before.name != now.name {
        log.record(&kind::PEER_RENAMED, source, &[Value::text(&before.name), name()], clocks);
    }
    if before.key != now.key {
        let key = Value::text(encode_base64(now.key.as_bytes()));
        log.record(&kind::PEER_KEY_CHANGED, source, &[name(), key], clocks);
    }
    if before.addresses != now.addresses {
        log.record(&kind::PEER_READDRESSED, source, &[name(), listed(&now.addresses)], clocks);
    }
}

/// Returns addresses as one text.
pub(crate) fn listed(addresses: &[impl ToString]) -> Value {
    let all: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    if all.is_empty() { Value::Word("none") } else { Value::Text(all.join(",")) }
}

#[derive(Default)]
struct MapDifference<'a> {
    added: Vec<&'a Peer>,
    removed: Vec<&'a Peer>,
    /// Peers with another name, key or address: the old and the new entry.
    changed: Vec<(&'a Peer, &'a Peer)>,
    /// Number of peers of which only the endpoints or relays changed.
    moved: usize,
}

impl<'a> MapDifference<'a> {
    fn between(old: &'a NetworkMap, new: &'a NetworkMap) -> Self {
        let mut changes = Self::default();
        changes.removed.extend(old.peers.values().filter(|peer| !new.peers.contains_key(&peer.id)));
        for peer in new.peers.values() {
            match old.peers.get(&peer.id) {
                None => changes.added.push(peer),
                Some(before)
                    if (&before.name, &before.key, &before.addresses) != (&peer.name, &peer.key, &peer.addresses) =>
                {
                    changes.changed.push((before, peer));
                }
                Some(before) => changes.moved += usize::from(before != peer),
            }
        }
        changes
    }

    fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}
