//! Relays of a network: those that the operator added, and the coordinator's own.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde_json::{Value, json};
use taut_base::{NodeId, PublicKey, RelayId};
use taut_netmap::{BadName, MAX_PEER_RELAYS, MAX_RELAYS, Relay, RelayFault, RelayToken, check_name};

use super::names::is_number;
use super::party::{Change, record};
use super::relay_links::RelayReport;
use super::{State, StateError, networks, random_bits};
use crate::clock::unix_now;
use crate::log;
use crate::store::{NetworkId, NetworkRow, NewRelay, Party, Reading, RelayRow, Writing};

/// Number of the coordinator's own relay. Numbers of rows begin at 1.
pub(crate) const OWN: RelayId = RelayId(0);

/// Name of the coordinator's own relay.
pub(crate) const OWN_NAME: &str = "coordinator";

/// Key of the coordinator's own relay in the table `meta`, which has it as JSON.
const OWN_RELAY: &str = "own-relay";

/// A relay as the operator sees it.
pub(crate) struct RelayView {
    pub(crate) network: String,
    pub(crate) relay: Relay,
    /// Time at which it was added, in seconds since 1970; `None` for the coordinator's own relay.
    pub(crate) created_at: Option<i64>,
    /// Number of members that report that they are bound to it.
    pub(crate) bound: usize,
    /// The relay's last report on its channel; `None` for a relay without a channel.
    pub(crate) report: Option<RelayReport>,
}

/// A relay that the operator adds.
pub(crate) struct RelayToAdd {
    pub(crate) name: String,
    pub(crate) key: PublicKey,
    pub(crate) endpoints: Vec<SocketAddr>,
    pub(crate) stun_port: u16,
    pub(crate) web: Option<String>,
}

impl State {
    /// Returns what a relay needs to serve this coordinator's nodes.
    pub(crate) fn relay_token(&self) -> RelayToken {
        RelayToken {
            coordinator: self.public,
            tickets: self.ticket_key().0,
            proof: self.signer.prove(&self.public),
            urls: self.urls.clone(),
        }
    }

    /// Returns the relays of one network or of all.
    pub(crate) async fn relays(&self, network: Option<&str>) -> Result<Vec<RelayView>, StateError> {
        let mut tx = self.store.read(Party::Operators).await?;
        let own = own(&mut tx).await?;
        let mut views = Vec::new();
        for network in networks::listed(&mut tx, network).await? {
            let members = tx.nodes(network.id).await?;
            let rows = tx.relays(network.id).await?;
            let known = rows.into_iter().map(|row| (Some(row.created_at), relay(row)));
            for (created_at, relay) in own.clone().map(|own| (None, own)).into_iter().chain(known) {
                let bound = members.iter().filter(|member| member.relays.contains(&relay.id)).count();
                let report = self.relay_links.report(&relay.key);
                views.push(RelayView { network: network.name.clone(), relay, created_at, bound, report });
            }
        }
        Ok(views)
    }

    /// Adds a relay to a network, whose members learn of it.
    pub(crate) async fn add_relay(&self, network: Option<&str>, named: RelayToAdd) -> Result<RelayView, StateError> {
        check_name(&named.name).map_err(StateError::bad_name(&named.name))?;
        if is_number(&named.name) {
            return Err(StateError::BadName(named.name, BadName::NoLabel));
        }
        let mut tx = self.store.write(Party::Operators).await?;
        let network = networks::named(&mut tx, network).await?;
        let mut known: Vec<Relay> = tx.relays(network.id).await?.into_iter().map(relay).collect();
        known.extend(own(&mut tx).await?);
        if named.name == OWN_NAME || known.iter().any(|known| known.name == named.name || known.key == named.key) {
            return Err(StateError::RelayExists(named.name));
        }
        // One place is reserved for the coordinator's own relay, which a later start may add.
        if known.iter().filter(|known| known.id != OWN).count() + 1 >= MAX_RELAYS {
            return Err(StateError::BadRelay(RelayFault::TooMany { relays: MAX_RELAYS + 1 }));
        }
        let RelayToAdd { name, key, endpoints, stun_port, web } = named;
        let new = NewRelay { network: network.id, name, key, endpoints, stun_port, web };
        let row = tx.insert_relay(&new, unix_now()).await?;
        let (created_at, relay) = (Some(row.created_at), relay(row));
        relay.check(&[network.ipv4, network.ipv6]).map_err(StateError::BadRelay)?;
        if relay.endpoints.is_empty() && relay.web.is_none() {
            return Err(StateError::NoPlace);
        }
        let version = tx.next_version(network.id, random_bits()).await?;
        tx.set_relays_version(network.id, version).await?;
        let (of, object) = (Some(network.id), format!("relay {}", relay.id));
        let after = Some(value(&relay));
        record(&mut tx, Change { network: of, action: "relay-added", object, before: None, after }).await?;
        tx.commit().await?;
        self.hub(network.id).announce(version);
        let (id, key) = (relay.id.0, &relay.key);
        tracing::info!(target: log::MEMBERS, event = "relay-added", network = network.name, relay = id, name = relay.name, %key);
        let report = self.relay_links.report(&relay.key);
        Ok(RelayView { network: network.name, relay, created_at, bound: 0, report })
    }

    /// Removes a relay from a network. A name needs a network if several networks have a relay of that name.
    pub(crate) async fn remove_relay(&self, network: Option<&str>, name: &str) -> Result<RelayView, StateError> {
        let mut tx = self.store.write(Party::Operators).await?;
        let mut found = Vec::new();
        let network_name = network;
        for network in networks::listed(&mut tx, network).await? {
            let rows = tx.relays(network.id).await?;
            let named = rows.into_iter().find(|row| row.name == name || row.id.to_string() == name);
            found.extend(named.map(|row| (network, row)));
        }
        let Some((network, row)) = networks::only(found, "relay", name)? else {
            if let Some(removed) = self.remove_damaged_relay(tx, network_name, name).await? {
                return Ok(removed);
            }
            let is_own = name == OWN_NAME || name == OWN.to_string();
            return Err(if is_own { StateError::OwnRelay } else { StateError::NoRelay(String::from(name)) });
        };
        let bound = tx.nodes(network.id).await?.iter().filter(|member| member.relays.contains(&row.id)).count();
        tx.delete_relay(row.id).await?;
        let version = tx.next_version(network.id, random_bits()).await?;
        tx.set_relays_version(network.id, version).await?;
        let (of, object) = (Some(network.id), format!("relay {}", row.id));
        let before = Some(value(&relay(row.clone())));
        record(&mut tx, Change { network: of, action: "relay-removed", object, before, after: None }).await?;
        tx.commit().await?;
        self.hub(network.id).announce(version);
        tracing::info!(target: log::MEMBERS, event = "relay-removed", network = network.name, relay = row.id.0, name = row.name);
        Ok(RelayView {
            network: network.name,
            created_at: Some(row.created_at),
            relay: relay(row),
            bound,
            report: None,
        })
    }

    /// Removes a relay whose row is damaged, by its number (fault O9). It is in no map. Returns `None` if there is none.
    async fn remove_damaged_relay(
        &self,
        mut tx: Writing,
        network: Option<&str>,
        number: &str,
    ) -> Result<Option<RelayView>, StateError> {
        let Ok(id) = number.parse::<i64>() else { return Ok(None) };
        for network in networks::listed(&mut tx, network).await? {
            if tx.delete_damaged_relay(network.id, id).await? {
                // It may still be in the maps of nodes.
                let version = tx.next_version(network.id, random_bits()).await?;
                tx.set_relays_version(network.id, version).await?;
                let (of, object) = (Some(network.id), format!("relay {id}"));
                record(&mut tx, Change { network: of, action: "relay-removed", object, before: None, after: None })
                    .await?;
                tx.commit().await?;
                self.hub(network.id).announce(version);
                tracing::info!(target: log::MEMBERS, event = "relay-removed", network = network.name, relay = id, name = "");
                let id = RelayId(u32::try_from(id).unwrap_or(u32::MAX));
                let (name, key, endpoints) = (String::from(number), PublicKey([0; 32]), Vec::new());
                let relay = Relay { id, name, key, endpoints, stun_port: 0, web: None, busy: false };
                return Ok(Some(RelayView { network: network.name, relay, created_at: None, bound: 0, report: None }));
            }
        }
        Ok(None)
    }

    /// Stores the coordinator's own relay, or that there is none. If that differs from the last start, the maps of all networks change.
    pub(crate) async fn set_own_relay(&self, own: Option<&Relay>) -> Result<(), StateError> {
        let mut tx = self.store.write(Party::Coordinator).await?;
        if self::own(&mut tx).await?.as_ref() == own {
            return Ok(());
        }
        let json = serde_json::to_vec(&own).unwrap_or_default();
        tx.replace_meta(OWN_RELAY, &json).await?;
        let mut versions = Vec::new();
        for network in tx.networks().await? {
            let version = tx.next_version(network.id, random_bits()).await?;
            tx.set_relays_version(network.id, version).await?;
            versions.push((network.id, version));
        }
        tx.commit().await?;
        for (network, version) in versions {
            self.hub(network).announce(version);
        }
        Ok(())
    }

    /// Stores the relays that a node reports to be bound to. The map changes only if they differ.
    pub(crate) async fn set_bound(&self, network: NetworkId, node: NodeId, ids: &[RelayId]) -> Result<(), StateError> {
        let mut bound: Vec<RelayId> = Vec::with_capacity(MAX_PEER_RELAYS);
        for id in ids {
            if bound.len() < MAX_PEER_RELAYS && !bound.contains(id) {
                bound.push(*id);
            }
        }
        let mut tx = self.store.write(self.party(network)).await?;
        let row = tx.node(node).await?.ok_or(StateError::NotAMember)?;
        if bound == row.relays {
            return Ok(());
        }
        let version = tx.next_version(row.network, random_bits()).await?;
        tx.set_relays(node, &bound, version).await?;
        tx.commit().await?;
        self.hub(row.network).announce(version);
        Ok(())
    }
}

/// Returns all relays of a network's map. A relay whose row is damaged is left out, because nodes would refuse the whole map (fault E10).
pub(super) async fn of(tx: &mut Reading, network: &NetworkRow) -> Result<Vec<Relay>, StateError> {
    let overlay = [network.ipv4, network.ipv6];
    let rows = tx.relays(network.id).await?;
    let mut relays: Vec<Relay> = own(tx).await?.into_iter().chain(rows.into_iter().map(relay)).collect();
    relays.retain(|relay| match relay.check(&overlay) {
        Ok(()) => true,
        Err(_) => {
            if relay.id != OWN {
                tx.note_damaged("relays", &relay.id, "nodes would refuse it");
            }
            false
        }
    });
    let (mut keys, mut names) = (BTreeSet::new(), BTreeSet::new());
    relays.retain(|relay| {
        let is_first = keys.insert(relay.key.0) && names.insert(relay.name.clone());
        if !is_first {
            tx.note_damaged("relays", &relay.id, "an earlier relay of the network has its name or key");
        }
        is_first
    });
    relays.truncate(MAX_RELAYS);
    Ok(relays)
}

/// Returns the coordinator's own relay; `None` if there is none, or if its JSON is damaged.
async fn own(tx: &mut Reading) -> Result<Option<Relay>, StateError> {
    let json = tx.meta(OWN_RELAY).await?;
    Ok(json.and_then(|json| serde_json::from_slice::<Option<Relay>>(&json).ok()).flatten())
}

/// Returns a relay for the audit log.
fn value(relay: &Relay) -> Value {
    json!({ "name": relay.name, "key": relay.key, "endpoints": relay.endpoints, "stun_port": relay.stun_port, "web": relay.web })
}

fn relay(row: RelayRow) -> Relay {
    let RelayRow { id, name, key, endpoints, stun_port, web, created_at: _, busy } = row;
    Relay { id, name, key, endpoints, stun_port, web, busy }
}
