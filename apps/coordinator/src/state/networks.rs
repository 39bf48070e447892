//! Networks: creating them, and finding them by name.

use std::sync::PoisonError;

use taut_base::Prefix;
use taut_netmap::{Naming, check_network_name};

use serde_json::json;

use super::party::{Caller, Change, record};
use super::{State, StateError, addresses, first_policy, random, random_bits};
use crate::clock::unix_now;
use crate::log;
use crate::store::{NetworkId, NetworkRow, Party, Reading, Writing};

/// A network as the operator sees it.
pub(crate) struct NetworkView {
    pub(crate) row: NetworkRow,
    pub(crate) nodes: u64,
    pub(crate) online: usize,
}

impl State {
    /// Returns all networks, sorted by name.
    pub(crate) async fn networks(&self) -> Result<Vec<NetworkView>, StateError> {
        let mut tx = self.store.read(Party::Operators).await?;
        let mut views = Vec::new();
        for row in listed(&mut tx, None).await? {
            views.push(NetworkView {
                nodes: tx.count_nodes(row.id).await?,
                online: self.hub(row.id).online().len(),
                row,
            });
        }
        Ok(views)
    }

    /// Creates a network.
    pub(crate) async fn create_network(&self, name: &str, ipv4: Prefix) -> Result<NetworkView, StateError> {
        let mut tx = self.store.write(Party::Operators).await?;
        let row = create(&mut tx, name, ipv4, unix_now()).await?;
        let after = Some(json!({ "name": row.name, "ipv4": row.ipv4, "ipv6": row.ipv6 }));
        let (network, object) = (Some(row.id), format!("network {}", row.id));
        record(&mut tx, Change { network, action: "network-created", object, before: None, after }).await?;
        tx.commit().await?;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(row.id);
        let NetworkRow { name: network, ipv4, ipv6, .. } = &row;
        tracing::info!(target: log::MEMBERS, event = "network-created", network, %ipv4, %ipv6);
        Ok(NetworkView { row, nodes: 0, online: 0 })
    }
}

/// Returns an error unless a network may have this name.
pub(crate) fn check_name(name: &str) -> Result<(), StateError> {
    check_network_name(name).map_err(StateError::bad_name(name))
}

/// Returns an error unless a network may have this IPv4 prefix.
pub(crate) fn check_prefix(ipv4: Prefix) -> Result<(), StateError> {
    if addresses::is_usable(ipv4) { Ok(()) } else { Err(StateError::BadPrefix(ipv4)) }
}

pub(super) async fn create(tx: &mut Writing, name: &str, ipv4: Prefix, now: i64) -> Result<NetworkRow, StateError> {
    check_name(name)?;
    check_prefix(ipv4)?;
    if tx.network_by_name(name).await?.is_some() {
        return Err(StateError::NetworkExists(String::from(name)));
    }
    let id = NetworkId(random());
    let ipv6 = addresses::random_ula(random());
    let row = NetworkRow {
        id,
        name: String::from(name),
        ipv4,
        ipv6,
        version: 0,
        cursor: 0,
        created_at: now,
        relays_version: 0,
        groups_version: 0,
        approval: false,
        key_life: None,
        naming: Naming::default(),
        names_version: 0,
    };
    tx.insert_network(&row, random_bits()).await?;
    first_policy::insert_first(tx, id, now).await?;
    tx.network(id).await?.ok_or_else(|| StateError::NoNetwork(String::from(name)))
}

/// Returns the network of this name or number; the only network if no name is given.
pub(super) async fn named(tx: &mut Reading, name: Option<&str>) -> Result<NetworkRow, StateError> {
    let Some(name) = name else {
        let mut all = listed(tx, None).await?;
        return match (all.pop(), all.is_empty()) {
            (Some(only), true) => Ok(only),
            (Some(_), false) => Err(StateError::WhichNetwork),
            (None, _) => Err(StateError::NoNetworks),
        };
    };
    let found = match tx.network_by_name(name).await? {
        Some(row) => Some(row),
        None => match name.parse::<NetworkId>() {
            Ok(id) => tx.network(id).await?,
            Err(()) => None,
        },
    };
    // A network in which the caller lacks the rights is reported as unknown, so that its name is not revealed.
    let found = found.filter(|row| Caller::current().reaches(row.id));
    found.ok_or_else(|| StateError::NoNetwork(String::from(name)))
}

/// Returns the only element of `found`, the networks that have an object of this name; `None` if it is empty, and an error if there are several.
pub(super) fn only<T>(
    mut found: Vec<(NetworkRow, T)>,
    what: &'static str,
    name: &str,
) -> Result<Option<(NetworkRow, T)>, StateError> {
    if found.len() > 1 {
        let networks = found.into_iter().map(|(network, _)| network.name).collect();
        return Err(StateError::Several { what, name: String::from(name), networks });
    }
    Ok(found.pop())
}

/// Returns the networks to list: one by name, or all networks in which the caller has the rights for its request.
pub(super) async fn listed(tx: &mut Reading, name: Option<&str>) -> Result<Vec<NetworkRow>, StateError> {
    if name.is_some() {
        return Ok(vec![Box::pin(named(tx, name)).await?]);
    }
    let (caller, mut all) = (Caller::current(), tx.networks().await?);
    all.retain(|row| caller.reaches(row.id));
    Ok(all)
}
