//! Groups that an OpenID provider gives to people, for policies.

use super::super::rows::bytes;
use super::super::{NetworkId, Reading, Row, StoreError, Writing};

/// A person whose groups count in policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupsRow {
    pub(crate) login: String,
    /// Groups of the provider, sorted.
    pub(crate) groups: Vec<String>,
}

/// Selects the people whose groups count in policies.
macro_rules! counted {
    () => {
        "SELECT p.id, p.login, p.member_of FROM people p WHERE p.login IS NOT NULL AND p.disabled_at IS NULL AND p.lapsed_at IS NULL \
         AND p.member_of <> '[]' AND NOT EXISTS (SELECT 1 FROM people o WHERE o.login = p.login AND o.id <> p.id \
         AND o.disabled_at IS NULL AND o.lapsed_at IS NULL)"
    };
}

impl Reading {
    /// Returns the people whose groups count in policies, sorted by login; with a network, only owners of its nodes. Left out are disabled and lapsed people, and a
    /// login that two people have.
    pub(crate) async fn groups_of_people(&mut self, network: Option<NetworkId>) -> Result<Vec<GroupsRow>, StoreError> {
        let rows = match network {
            None => self.all(concat!(counted!(), " ORDER BY p.login"), &[]).await?,
            Some(network) => {
                let sql = concat!(
                    counted!(),
                    " AND p.login IN (SELECT owner FROM nodes WHERE network = $1 AND removed_at IS NULL) ORDER BY p.login"
                );
                self.all(sql, &[(&network.0).into()]).await?
            }
        };
        Ok(self.valid("people", &rows, groups))
    }

    /// Returns the networks in which a login owns a node.
    pub(crate) async fn networks_of_owner(&mut self, login: &str) -> Result<Vec<NetworkId>, StoreError> {
        let sql = "SELECT DISTINCT n.network AS network FROM nodes n JOIN networks w ON w.id = n.network \
                   WHERE n.owner = $1 AND n.removed_at IS NULL AND w.removed_at IS NULL ORDER BY n.network";
        self.all(sql, &[login.into()]).await?.iter().map(|row| bytes(row, "network").map(NetworkId)).collect()
    }
}

impl Writing {
    /// Stores the version at which groups of owners of a network's nodes changed.
    pub(crate) async fn set_groups_version(&mut self, network: NetworkId, version: u64) -> Result<(), StoreError> {
        let sql = "UPDATE networks SET groups_version = $1 WHERE id = $2";
        self.execute(sql, &[version.into(), (&network.0).into()]).await?;
        Ok(())
    }
}

fn groups(row: &Row) -> Result<GroupsRow, StoreError> {
    let groups = serde_json::from_str(&row.get::<String>("member_of")?);
    let groups = groups.map_err(|_| StoreError::Damaged("groups that are no list of texts"))?;
    Ok(GroupsRow { login: row.get("login")?, groups })
}
