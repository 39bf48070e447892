//! Nodes.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::LazyLock;

use taut_base::{NodeId, PublicKey, RelayId};

use super::damage::{is_over, parsed};
use super::device_rows::text_of;
use super::rows::{bytes, lossy_node, node, unsigned};
use super::value::{Row, Value};
use super::{Marks, NetworkId, NewNode, NodeRow, NodeRows, Origin, Reading, StoreError, Writing};

/// Nodes that one statement changes, 500: a server far away answers once instead of 500 times, and others wait for milliseconds.
pub(crate) const MANY_NODES: usize = 500;

/// Returns the statement for [`MANY_NODES`] nodes, whose numbers are its values from the second one on. Called once for each statement.
fn for_many(update: &str) -> &'static str {
    let places: Vec<String> = (2..MANY_NODES + 2).map(|place| format!("${place}")).collect();
    format!("{update} WHERE id IN ({})", places.join(", ")).leak()
}

impl Reading {
    /// Returns the members of a network, sorted by number, without those whose row is damaged.
    pub(crate) async fn nodes(&mut self, network: NetworkId) -> Result<Vec<NodeRow>, StoreError> {
        Ok(self.members(network).await?.valid)
    }

    /// Returns the members of a network that a login owns.
    pub(crate) async fn members_of(&mut self, network: NetworkId, login: &str) -> Result<Vec<NodeRow>, StoreError> {
        let sql = concat!(
            "SELECT ",
            node_columns!(),
            " FROM nodes WHERE network = $1 AND owner = $2 AND removed_at IS NULL ORDER BY id"
        );
        let rows = self.all(sql, &[(&network.0).into(), login.into()]).await?;
        Ok(self.valid("nodes", &rows, node))
    }

    /// Returns the members of a network, sorted by number.
    pub(crate) async fn members(&mut self, network: NetworkId) -> Result<NodeRows, StoreError> {
        let rows = self
            .all(
                concat!(
                    "SELECT ",
                    node_columns!(),
                    " FROM nodes WHERE network = $1 AND removed_at IS NULL ORDER BY id"
                ),
                &[(&network.0).into()],
            )
            .await?;
        Ok(self.node_rows(&rows))
    }

    /// Returns the members that changed, and the nodes that were removed, after `version`.
    pub(crate) async fn nodes_since(&mut self, network: NetworkId, version: u64) -> Result<NodeRows, StoreError> {
        let rows = self
            .all(
                concat!("SELECT ", node_columns!(), " FROM nodes WHERE network = $1 AND version > $2 ORDER BY id"),
                &[(&network.0).into(), version.into()],
            )
            .await?;
        Ok(self.node_rows(&rows))
    }

    fn node_rows(&self, rows: &[Row]) -> NodeRows {
        let valid = self.valid("nodes", rows, node);
        if valid.len() == rows.len() {
            return NodeRows { valid, damaged: Vec::new() };
        }
        let damaged = rows.iter().filter(|row| !is_over(row) && node(row).is_err());
        let damaged = damaged.filter_map(|row| Some(lossy_node(row)?.id)).collect();
        NodeRows { valid, damaged }
    }

    /// Returns the number of nodes that joined with this key and were removed at `since` or later.
    pub(crate) async fn marks(&mut self, key: i64, from: &Origin, since: i64) -> Result<Marks, StoreError> {
        let row = self
            .one(
                "SELECT count(*) AS of_key, count(*) FILTER (WHERE joined_site = $1) AS of_site, \
             count(*) FILTER (WHERE joined_host = $2) AS of_host FROM nodes WHERE joined_key = $3 AND removed_at >= $4",
                &[(&from.site).into(), (&from.host).into(), key.into(), since.into()],
            )
            .await?;
        let count = |column| unsigned(row.get(column)?);
        Ok(Marks { key: count("of_key")?, site: count("of_site")?, host: count("of_host")? })
    }

    /// Returns a member by its number.
    pub(crate) async fn node(&mut self, id: NodeId) -> Result<Option<NodeRow>, StoreError> {
        let row = self
            .optional(
                concat!("SELECT ", node_columns!(), " FROM nodes WHERE id = $1 AND removed_at IS NULL"),
                &[id.0.into()],
            )
            .await?;
        row.as_ref().map(|row| parsed("nodes", row, node)).transpose()
    }

    /// Returns a member by its name.
    pub(crate) async fn node_by_name(&mut self, network: NetworkId, name: &str) -> Result<Option<NodeRow>, StoreError> {
        let row = self
            .optional(
                concat!(
                    "SELECT ",
                    node_columns!(),
                    " FROM nodes WHERE network = $1 AND name = $2 AND removed_at IS NULL"
                ),
                &[(&network.0).into(), name.into()],
            )
            .await?;
        row.as_ref().map(|row| parsed("nodes", row, node)).transpose()
    }

    /// Returns a member by its machine key.
    pub(crate) async fn node_by_machine(
        &mut self,
        network: NetworkId,
        key: PublicKey,
    ) -> Result<Option<NodeRow>, StoreError> {
        let row = self
            .optional(
                concat!(
                    "SELECT ",
                    node_columns!(),
                    " FROM nodes WHERE network = $1 AND machine_key = $2 AND removed_at IS NULL"
                ),
                &[(&network.0).into(), (&key.0).into()],
            )
            .await?;
        row.as_ref().map(|row| parsed("nodes", row, node)).transpose()
    }

    /// Returns the members of any network that have this WireGuard key: their numbers, networks and machine keys. A damaged machine key is `None`.
    pub(crate) async fn owners(
        &mut self,
        key: PublicKey,
    ) -> Result<Vec<(NodeId, NetworkId, Option<PublicKey>)>, StoreError> {
        let rows = self
            .all(
                "SELECT id, network, machine_key FROM nodes WHERE node_key = $1 AND removed_at IS NULL",
                &[(&key.0).into()],
            )
            .await?;
        let owner = |row: &Row| {
            let network = NetworkId(bytes(row, "network")?);
            Ok((NodeId(unsigned(row.get("id")?)?), network, bytes(row, "machine_key").ok().map(PublicKey)))
        };
        Ok(self.valid("nodes", &rows, owner))
    }

    /// Returns a member with zeros for what cannot be read of its row.
    pub(crate) async fn damaged_node(&mut self, id: NodeId) -> Result<Option<NodeRow>, StoreError> {
        let row = self
            .optional(
                concat!("SELECT ", node_columns!(), " FROM nodes WHERE id = $1 AND removed_at IS NULL"),
                &[id.0.into()],
            )
            .await?;
        Ok(row.as_ref().and_then(lossy_node))
    }

    /// Returns the names of a network's members, as far as they can be read, also of those whose row is damaged.
    pub(crate) async fn names(&mut self, network: NetworkId) -> Result<BTreeSet<String>, StoreError> {
        let names = "SELECT name FROM nodes WHERE network = $1 AND removed_at IS NULL";
        let rows = self.all(names, &[(&network.0).into()]).await?;
        Ok(rows.iter().filter_map(|row| row.first().ok()).collect())
    }

    /// Returns the IPv4 address that this machine had when it was last removed, while the mark of that is kept.
    pub(crate) async fn former_address(
        &mut self,
        network: NetworkId,
        machine: PublicKey,
    ) -> Result<Option<Ipv4Addr>, StoreError> {
        let former = "SELECT ipv4 FROM nodes WHERE network = $1 AND machine_key = $2 AND removed_at IS NOT NULL \
             ORDER BY id DESC LIMIT 1";
        let row = self.optional(former, &[(&network.0).into(), (&machine.0).into()]).await?;
        // Without a valid mark the machine is as good as new.
        Ok(row.and_then(|row| bytes::<4>(&row, "ipv4").ok()).map(Ipv4Addr::from))
    }

    /// Returns true if a member has this name.
    pub(crate) async fn is_name_taken(&mut self, network: NetworkId, name: &str) -> Result<bool, StoreError> {
        let taken = "SELECT EXISTS (SELECT 1 FROM nodes WHERE network = $1 AND name = $2 AND removed_at IS NULL)";
        self.one(taken, &[(&network.0).into(), name.into()]).await?.first()
    }

    /// Returns the number of members of a network.
    pub(crate) async fn count_nodes(&mut self, network: NetworkId) -> Result<u64, StoreError> {
        let row = self
            .one("SELECT count(*) FROM nodes WHERE network = $1 AND removed_at IS NULL", &[(&network.0).into()])
            .await?;
        unsigned(row.first()?)
    }

    /// Returns true if a member has one of these addresses. Both are looked for, because a damaged row may have only one of them.
    pub(crate) async fn is_address_taken(
        &mut self,
        network: NetworkId,
        ipv4: Ipv4Addr,
        ipv6: Ipv6Addr,
    ) -> Result<bool, StoreError> {
        let row = self
            .one(
                "SELECT EXISTS (SELECT 1 FROM nodes WHERE network = $1 AND ipv4 = $2 AND removed_at IS NULL) \
                 OR EXISTS (SELECT 1 FROM nodes WHERE ipv6 = $3 AND removed_at IS NULL)",
                &[(&network.0).into(), (&ipv4.octets()).into(), (&ipv6.octets()).into()],
            )
            .await?;
        row.first()
    }
}

impl Writing {
    /// Inserts a member.
    pub(crate) async fn insert_node(&mut self, new: &NewNode, now: i64) -> Result<NodeRow, StoreError> {
        let device = &new.device;
        let tags = text_of(&device.tags)?;
        let row = self.one(concat!("INSERT INTO nodes (network, machine_key, node_key, name, ipv4, ipv6, program, version, created_at, last_seen_at, \
             joined_key, joined_host, joined_site, owner, tags, approved, expires_at, ephemeral, part_version) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, $10, $11, $12, $13, $14, $15, $16, $17, $8) RETURNING ", node_columns!()), &[(&new.network.0).into(), (&new.machine_key.0).into(), (&new.node_key.0).into(), (&new.name).into(), (&new.ipv4.octets()).into(), (&new.ipv6.octets()).into(), (&new.program).into(), new.version.into(), now.into(), new.key.into(), (&new.from.host).into(), (&new.from.site).into(), device.owner.as_deref().into(), (&tags).into(), device.approved.into(), device.expires_at.into(), device.ephemeral.into()])
        .await?;
        parsed("nodes", &row, node)
    }

    /// Stores a member's new WireGuard key, and the time at which its budget of key changes is full again.
    pub(crate) async fn set_node_key(
        &mut self,
        id: NodeId,
        key: PublicKey,
        full_at: i64,
        version: u64,
        now: i64,
    ) -> Result<(), StoreError> {
        self.revoke(id, false, now).await?;
        self.execute(
            "UPDATE nodes SET node_key = $1, keys_full_at = $2, version = $3 WHERE id = $4",
            &[(&key.0).into(), full_at.into(), version.into(), id.0.into()],
        )
        .await?;
        Ok(())
    }

    /// Stores a member's new name.
    pub(crate) async fn set_name(&mut self, id: NodeId, name: &str, version: u64) -> Result<(), StoreError> {
        self.execute(
            "UPDATE nodes SET name = $1, version = $2 WHERE id = $3",
            &[name.into(), version.into(), id.0.into()],
        )
        .await?;
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
        self.execute(
            "UPDATE nodes SET endpoints = $1, version = $2 WHERE id = $3",
            &[(&text).into(), version.into(), id.0.into()],
        )
        .await?;
        Ok(())
    }

    /// Stores the relays that a member is bound to.
    pub(crate) async fn set_relays(&mut self, id: NodeId, relays: &[RelayId], version: u64) -> Result<(), StoreError> {
        let text = serde_json::to_string(relays).map_err(|_| StoreError::Damaged("relays"))?;
        self.execute(
            "UPDATE nodes SET relays = $1, version = $2 WHERE id = $3",
            &[(&text).into(), version.into(), id.0.into()],
        )
        .await?;
        Ok(())
    }

    /// Stores the version of the program of up to [`MANY_NODES`] members. It is not part of any map, so the version of the network stays.
    pub(crate) async fn set_program(&mut self, nodes: &[NodeId], program: &str) -> Result<(), StoreError> {
        static SET: LazyLock<&str> = LazyLock::new(|| for_many("UPDATE nodes SET program = $1"));
        self.execute_for(&SET, program.into(), nodes).await
    }

    /// Stores the time at which up to [`MANY_NODES`] members were last online. It is not part of any map, so the version of the network stays.
    pub(crate) async fn set_last_seen(&mut self, nodes: &[NodeId], now: i64) -> Result<(), StoreError> {
        static SET: LazyLock<&str> = LazyLock::new(|| for_many("UPDATE nodes SET last_seen_at = $1"));
        self.execute_for(&SET, now.into(), nodes).await
    }

    /// Executes a statement of [`for_many`]. The last node is named again in the places that are left.
    async fn execute_for<'a>(
        &mut self,
        statement: &'static str,
        value: Value<'a>,
        nodes: &[NodeId],
    ) -> Result<(), StoreError> {
        let Some(last) = nodes.last() else { return Ok(()) };
        let places = nodes.iter().chain(std::iter::repeat(last)).take(MANY_NODES);
        let values: Vec<Value<'_>> = std::iter::once(value).chain(places.map(|node| node.0.into())).collect();
        self.execute(statement, &values).await?;
        Ok(())
    }

    /// Deletes up to `most` marks of nodes that were removed before `time` (seconds since 1970) and before all versions in the history. Returns the number of
    /// deleted marks.
    pub(crate) async fn forget_nodes(&mut self, time: i64, most: u32) -> Result<u64, StoreError> {
        self.execute(
            "DELETE FROM nodes WHERE id IN (SELECT id FROM nodes WHERE removed_at < $1 AND version < \
             (SELECT min(h.version) FROM history h WHERE h.network = nodes.network) LIMIT $2)",
            &[time.into(), most.into()],
        )
        .await
    }

    /// Turns a member into a mark of a removed node.
    pub(crate) async fn remove_node(&mut self, id: NodeId, version: u64, now: i64) -> Result<(), StoreError> {
        self.revoke(id, true, now).await?;
        self.execute(
            "UPDATE nodes SET removed_at = $1, version = $2, endpoints = '[]', relays = '[]' WHERE id = $3",
            &[now.into(), version.into(), id.0.into()],
        )
        .await?;
        Ok(())
    }

    /// Deletes a node whose network does not exist.
    pub(crate) async fn delete_node(&mut self, id: NodeId) -> Result<(), StoreError> {
        self.execute("DELETE FROM nodes WHERE id = $1", &[id.0.into()]).await?;
        Ok(())
    }
}
