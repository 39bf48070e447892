//! Roles of people.

use super::super::rows::bytes;
use super::super::{NetworkId, Reading, Row, StoreError, Writing};

/// The role of a person.
#[derive(Clone, Debug)]
pub(crate) struct RoleRow {
    /// The network; `None` for all networks and the coordinator itself.
    pub(crate) network: Option<NetworkId>,
    pub(crate) role: String,
}

impl Reading {
    /// Returns the roles of a person.
    pub(crate) async fn roles(&mut self, person: i64) -> Result<Vec<RoleRow>, StoreError> {
        let sql = "SELECT network, role FROM roles WHERE person = $1 ORDER BY network";
        let rows = self.all(sql, &[person.into()]).await?;
        Ok(self.valid("roles", &rows, role))
    }

    /// Returns the numbers of the enabled people with this role in all networks who can sign in.
    pub(crate) async fn people_with_role(&mut self, role: &str) -> Result<Vec<i64>, StoreError> {
        let sql = "SELECT p.id AS id FROM people p JOIN roles r ON r.person = p.id WHERE r.role = $1 AND length(r.network) = 0 \
                   AND p.disabled_at IS NULL AND p.lapsed_at IS NULL AND (p.issuer <> 'local' OR EXISTS (SELECT 1 FROM credentials c WHERE c.person = p.id)) \
                   ORDER BY p.id";
        self.all(sql, &[role.into()]).await?.iter().map(|row| row.get("id")).collect()
    }
}

impl Writing {
    /// Sets or deletes the role of a person in a network, or in all.
    pub(crate) async fn set_role(
        &mut self,
        person: i64,
        network: Option<NetworkId>,
        role: Option<&str>,
    ) -> Result<(), StoreError> {
        let network: &[u8] = network.as_ref().map_or(&[], |network| &network.0);
        match role {
            Some(role) => {
                let sql = "INSERT INTO roles (person, network, role) VALUES ($1, $2, $3) \
                           ON CONFLICT (person, network) DO UPDATE SET role = excluded.role";
                self.execute(sql, &[person.into(), network.into(), role.into()]).await?;
            }
            None => {
                let sql = "DELETE FROM roles WHERE person = $1 AND network = $2";
                self.execute(sql, &[person.into(), network.into()]).await?;
            }
        }
        Ok(())
    }

    /// Deletes all roles in a network, which is being removed.
    pub(crate) async fn delete_roles_in(&mut self, network: NetworkId) -> Result<(), StoreError> {
        self.execute("DELETE FROM roles WHERE network = $1", &[(&network.0).into()]).await?;
        Ok(())
    }
}

fn role(row: &Row) -> Result<RoleRow, StoreError> {
    let network = match row.get::<Vec<u8>>("network")?.is_empty() {
        true => None,
        false => Some(NetworkId(bytes(row, "network")?)),
    };
    Ok(RoleRow { network, role: row.get("role")? })
}
