//! Nodes.

use std::net::{Ipv4Addr, SocketAddr};

use sqlx::{Row, query};
use taut_base::{NodeId, PublicKey, RelayId};

use super::rows::{mark, node, signed, unsigned};
use super::{MarkRow, Marks, NetworkId, NewNode, NodeRow, Origin, Reading, StoreError, Writing};

impl Reading {
    /// Returns the members of a network, sorted by number.
    pub(crate) async fn nodes(&mut self, network: NetworkId) -> Result<Vec<NodeRow>, StoreError> {
        let rows = query("SELECT * FROM nodes WHERE network = ? AND removed_at IS NULL ORDER BY id")
            .bind(network.0.as_slice())
            .fetch_all(&mut *self.tx)
            .await?;
        rows.iter().map(node).collect()
    }

    /// Returns the members that changed, and the nodes that were removed, after `version`.
    pub(crate) async fn nodes_since(&mut self, network: NetworkId, version: u64) -> Result<Vec<NodeRow>, StoreError> {
        let rows = query("SELECT * FROM nodes WHERE network = ? AND version > ? ORDER BY id")
            .bind(network.0.as_slice())
            .bind(signed(version))
            .fetch_all(&mut *self.tx)
            .await?;
        rows.iter().map(node).collect()
    }

    /// Returns up to `most` marks of removed nodes with numbers above `after`, sorted by number.
    pub(crate) async fn removed_nodes(&mut self, after: NodeId, most: u32) -> Result<Vec<MarkRow>, StoreError> {
        let rows = query(
            "SELECT id, network, node_key, removed_at FROM nodes \
             WHERE id > ? AND removed_at IS NOT NULL ORDER BY id LIMIT ?",
        )
        .bind(signed(after.0))
        .bind(most)
        .fetch_all(&mut *self.tx)
        .await?;
        rows.iter().map(mark).collect()
    }

    /// Returns the number of nodes that joined with this key and were removed at `since` or later.
    pub(crate) async fn marks(&mut self, key: i64, from: &Origin, since: i64) -> Result<Marks, StoreError> {
        let row = query(
            "SELECT count(*), coalesce(sum(joined_site = ?), 0), coalesce(sum(joined_host = ?), 0) \
             FROM nodes WHERE joined_key = ? AND removed_at >= ?",
        )
        .bind(from.site.as_slice())
        .bind(from.host.as_slice())
        .bind(key)
        .bind(since)
        .fetch_one(&mut *self.tx)
        .await?;
        let [key, site, host] = [row.try_get(0)?, row.try_get(1)?, row.try_get(2)?];
        Ok(Marks { key: unsigned(key)?, site: unsigned(site)?, host: unsigned(host)? })
    }

    /// Returns a member by its number.
    pub(crate) async fn node(&mut self, id: NodeId) -> Result<Option<NodeRow>, StoreError> {
        let row = query("SELECT * FROM nodes WHERE id = ? AND removed_at IS NULL")
            .bind(signed(id.0))
            .fetch_optional(&mut *self.tx)
            .await?;
        row.as_ref().map(node).transpose()
    }

    /// Returns a member by its name.
    pub(crate) async fn node_by_name(&mut self, network: NetworkId, name: &str) -> Result<Option<NodeRow>, StoreError> {
        let row = query("SELECT * FROM nodes WHERE network = ? AND name = ? AND removed_at IS NULL")
            .bind(network.0.as_slice())
            .bind(name)
            .fetch_optional(&mut *self.tx)
            .await?;
        row.as_ref().map(node).transpose()
    }

    /// Returns a member by its machine key.
    pub(crate) async fn node_by_machine(
        &mut self,
        network: NetworkId,
        key: PublicKey,
    ) -> Result<Option<NodeRow>, StoreError> {
        let row = query("SELECT * FROM nodes WHERE network = ? AND machine_key = ? AND removed_at IS NULL")
            .bind(network.0.as_slice())
            .bind(key.0.as_slice())
            .fetch_optional(&mut *self.tx)
            .await?;
        row.as_ref().map(node).transpose()
    }

    /// Returns the members of any network that have this WireGuard key.
    pub(crate) async fn nodes_by_node_key(&mut self, key: PublicKey) -> Result<Vec<NodeRow>, StoreError> {
        let rows = query("SELECT * FROM nodes WHERE node_key = ? AND removed_at IS NULL")
            .bind(key.0.as_slice())
            .fetch_all(&mut *self.tx)
            .await?;
        rows.iter().map(node).collect()
    }

    /// Returns the number of members of a network.
    pub(crate) async fn count_nodes(&mut self, network: NetworkId) -> Result<u64, StoreError> {
        let row = query("SELECT count(*) FROM nodes WHERE network = ? AND removed_at IS NULL")
            .bind(network.0.as_slice())
            .fetch_one(&mut *self.tx)
            .await?;
        unsigned(row.try_get(0)?)
    }

    /// Returns true if a member has this address.
    pub(crate) async fn is_address_taken(&mut self, network: NetworkId, address: Ipv4Addr) -> Result<bool, StoreError> {
        let row = query("SELECT EXISTS (SELECT 1 FROM nodes WHERE network = ? AND ipv4 = ? AND removed_at IS NULL)")
            .bind(network.0.as_slice())
            .bind(address.octets().as_slice())
            .fetch_one(&mut *self.tx)
            .await?;
        Ok(row.try_get(0)?)
    }
}

impl Writing {
    /// Inserts a member.
    pub(crate) async fn insert_node(&mut self, new: &NewNode, now: i64) -> Result<NodeRow, StoreError> {
        let row = query(
            "INSERT INTO nodes (network, machine_key, node_key, name, ipv4, ipv6, program, version, created_at, last_seen_at, \
             joined_key, joined_host, joined_site) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10, ?11, ?12) RETURNING *",
        )
        .bind(new.network.0.as_slice())
        .bind(new.machine_key.0.as_slice())
        .bind(new.node_key.0.as_slice())
        .bind(&new.name)
        .bind(new.ipv4.octets().as_slice())
        .bind(new.ipv6.octets().as_slice())
        .bind(&new.program)
        .bind(signed(new.version))
        .bind(now)
        .bind(new.key)
        .bind(new.from.host.as_slice())
        .bind(new.from.site.as_slice())
        .fetch_one(&mut *self.tx)
        .await?;
        node(&row)
    }

    /// Stores a member's new WireGuard key, and the time at which its budget of key changes is full again.
    pub(crate) async fn set_node_key(
        &mut self,
        id: NodeId,
        key: PublicKey,
        full_at: i64,
        version: u64,
    ) -> Result<(), StoreError> {
        let set = query("UPDATE nodes SET node_key = ?, keys_full_at = ?, version = ? WHERE id = ?");
        let set = set.bind(key.0.to_vec()).bind(full_at);
        set.bind(signed(version)).bind(signed(id.0)).execute(&mut *self.tx).await?;
        Ok(())
    }

    /// Stores a member's new name.
    pub(crate) async fn set_name(&mut self, id: NodeId, name: &str, version: u64) -> Result<(), StoreError> {
        let set = query("UPDATE nodes SET name = ?, version = ? WHERE id = ?").bind(name);
        set.bind(signed(version)).bind(signed(id.0)).execute(&mut *self.tx).await?;
        Ok(())
    }

    /// Stores a member's endpoints.
    pub(crate) async fn set_endpoints(
        &mut self,
        id: NodeId,
        endpoints: &[SocketAddr],
        version: u64,
    ) -> Result<(), StoreError> {
        let text = serde_json::to_string(endpoints).map_err(|_| StoreError::Damaged("endpoints"))?;
        let set = query("UPDATE nodes SET endpoints = ?, version = ? WHERE id = ?").bind(text);
        set.bind(signed(version)).bind(signed(id.0)).execute(&mut *self.tx).await?;
        Ok(())
    }

    /// Stores the relays that a member is bound to.
    pub(crate) async fn set_relays(&mut self, id: NodeId, relays: &[RelayId], version: u64) -> Result<(), StoreError> {
        let text = serde_json::to_string(relays).map_err(|_| StoreError::Damaged("relays"))?;
        let set = query("UPDATE nodes SET relays = ?, version = ? WHERE id = ?").bind(text);
        set.bind(signed(version)).bind(signed(id.0)).execute(&mut *self.tx).await?;
        Ok(())
    }

    /// Stores the version of a member's program. It is not part of any map, so the version of the network stays.
    pub(crate) async fn set_program(&mut self, id: NodeId, program: &str) -> Result<(), StoreError> {
        let set = query("UPDATE nodes SET program = ? WHERE id = ?").bind(program).bind(signed(id.0));
        set.execute(&mut *self.tx).await?;
        Ok(())
    }

    /// Stores the time at which a member was last online. It is not part of any map, so the version of the network stays.
    pub(crate) async fn set_last_seen(&mut self, id: NodeId, now: i64) -> Result<(), StoreError> {
        let set = query("UPDATE nodes SET last_seen_at = ? WHERE id = ?").bind(now).bind(signed(id.0));
        set.execute(&mut *self.tx).await?;
        Ok(())
    }

    /// Deletes up to `most` marks of nodes that were removed before `time` (seconds since 1970) and before all versions in the history. Returns the number of
    /// deleted marks.
    pub(crate) async fn forget_nodes(&mut self, time: i64, most: u32) -> Result<u64, StoreError> {
        let deleted = query(
            "DELETE FROM nodes WHERE id IN (SELECT id FROM nodes WHERE removed_at < ? AND version < \
             (SELECT min(h.version) FROM history h WHERE h.network = nodes.network) LIMIT ?)",
        );
        Ok(deleted.bind(time).bind(most).execute(&mut *self.tx).await?.rows_affected())
    }

    /// Turns a member into a mark of a removed node.
    pub(crate) async fn remove_node(&mut self, id: NodeId, version: u64, now: i64) -> Result<(), StoreError> {
        let set = query("UPDATE nodes SET removed_at = ?, version = ?, endpoints = '[]', relays = '[]' WHERE id = ?")
            .bind(now);
        set.bind(signed(version)).bind(signed(id.0)).execute(&mut *self.tx).await?;
        Ok(())
    }
}
