//! People as policies see them: logins at devices, groups that an OpenID provider gives, roles.

use super::super::rows::bytes;
use super::super::{NetworkId, Reading, Row, StoreError, Writing};

/// A person whose groups count in policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupsRow {
    pub(crate) login: String,
    /// Groups of the provider, sorted.
    pub(crate) groups: Vec<String>,
}

/// The login of a person at devices.
macro_rules! login {
    ($person:literal) => {
        concat!("CASE WHEN ", $person, ".issuer = 'local' THEN ", $person, ".subject ELSE ", $person, ".login END")
    };
}

/// True if no other person who can sign in has the login of the person `p`.
macro_rules! is_sole {
    () => {
        concat!(
            "NOT EXISTS (SELECT 1 FROM people o WHERE o.id <> p.id AND o.disabled_at IS NULL AND o.lapsed_at IS NULL AND ",
            login!("o"),
            " = ",
            login!("p"),
            ")"
        )
    };
}

/// Selects the people whose groups count in policies.
macro_rules! counted {
    () => {
        concat!(
            "SELECT p.id, p.login, p.member_of FROM people p WHERE p.login IS NOT NULL AND p.disabled_at IS NULL AND p.lapsed_at IS NULL \
             AND p.member_of <> '[]' AND ",
            is_sole!()
        )
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

    /// Returns the login of a person at devices: the name of a local one, or the address that the provider has confirmed. `None` if another person has the same.
    pub(crate) async fn sole_login(&mut self, person: i64) -> Result<Option<String>, StoreError> {
        // Also somebody who cannot sign in now has the login: access that returns must not meet another person's devices.
        let sql = concat!(
            "SELECT ",
            login!("p"),
            " AS login FROM people p WHERE p.id = $1 AND NOT EXISTS (SELECT 1 FROM people o WHERE o.id <> p.id AND ",
            login!("o"),
            " = ",
            login!("p"),
            ")"
        );
        match self.optional(sql, &[person.into()]).await? {
            Some(row) => row.get("login"),
            None => Ok(None),
        }
    }

    /// Returns the people with a role above that of a member in a network, or in all: login and role.
    pub(crate) async fn roles_for_policy(&mut self, network: NetworkId) -> Result<Vec<(String, String)>, StoreError> {
        let sql = concat!(
            "SELECT ",
            login!("p"),
            " AS login, r.role AS role FROM people p JOIN roles r ON r.person = p.id \
             WHERE (r.network = $1 OR length(r.network) = 0) AND r.role <> 'member' AND p.disabled_at IS NULL AND p.lapsed_at IS NULL AND ",
            is_sole!(),
            " ORDER BY p.id"
        );
        let rows = self.all(sql, &[(&network.0).into()]).await?;
        let mut found = Vec::new();
        for row in &rows {
            if let Some(login) = row.get::<Option<String>>("login")? {
                found.push((login, row.get("role")?));
            }
        }
        Ok(found)
    }

    /// Returns true if a person has this login.
    pub(crate) async fn has_login(&mut self, login: &str) -> Result<bool, StoreError> {
        let sql = concat!("SELECT 1 AS one FROM people p WHERE ", login!("p"), " = $1");
        Ok(self.optional(sql, &[login.into()]).await?.is_some())
    }

    /// Returns the groups of one login, if they count in policies.
    pub(crate) async fn groups_of_login(&mut self, login: &str) -> Result<Vec<GroupsRow>, StoreError> {
        let rows = self.all(concat!(counted!(), " AND p.login = $1"), &[login.into()]).await?;
        Ok(self.valid("people", &rows, groups))
    }

    /// Returns the number of nodes of a network that a login owns.
    pub(crate) async fn count_owned(&mut self, network: NetworkId, login: &str) -> Result<u64, StoreError> {
        let sql = "SELECT count(*) AS count FROM nodes WHERE network = $1 AND owner = $2 AND removed_at IS NULL";
        let rows = self.optional(sql, &[(&network.0).into(), login.into()]).await?;
        let count: i64 = rows.ok_or(StoreError::Damaged("no count"))?.get("count")?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// Returns the networks in which a login owns a node.
    pub(crate) async fn networks_of_owner(&mut self, login: &str) -> Result<Vec<NetworkId>, StoreError> {
        let sql = "SELECT DISTINCT n.network AS network FROM nodes n JOIN networks w ON w.id = n.network \
                   WHERE n.owner = $1 AND n.removed_at IS NULL AND w.removed_at IS NULL ORDER BY n.network";
        self.all(sql, &[login.into()]).await?.iter().map(|row| bytes(row, "network").map(NetworkId)).collect()
    }
}

impl Writing {
    /// Deletes an owner from its nodes and enrolment keys in a network.
    pub(crate) async fn free_nodes(&mut self, network: NetworkId, login: &str, version: u64) -> Result<(), StoreError> {
        let sql =
            "UPDATE nodes SET owner = NULL, version = $1 WHERE network = $2 AND owner = $3 AND removed_at IS NULL";
        self.execute(sql, &[version.into(), (&network.0).into(), login.into()]).await?;
        let sql = "UPDATE keys SET owner = NULL WHERE network = $1 AND owner = $2";
        self.execute(sql, &[(&network.0).into(), login.into()]).await?;
        Ok(())
    }

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
