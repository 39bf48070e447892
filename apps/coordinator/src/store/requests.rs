//! Machines that ask to join, or to be approved again, without an enrolment key.

use taut_base::PublicKey;

use super::damage::parsed;
use super::rows::{bytes, unsigned};
use super::value::Row;
use super::{NetworkId, Origin, Reading, StoreError, Writing};

/// A request of a machine.
#[derive(Clone, Debug)]
pub(crate) struct RequestRow {
    pub(crate) id: i64,
    /// Code that a person types to approve the request.
    pub(crate) code: String,
    /// The network of the member that asks to be approved again; `None` for a machine that is no member.
    pub(crate) network: Option<NetworkId>,
    pub(crate) machine_key: PublicKey,
    pub(crate) node_key: PublicKey,
    /// Name that the machine asks for.
    pub(crate) name: String,
    /// Version of the machine's program, as the machine reports it.
    pub(crate) program: String,
    /// Address from which the machine asks.
    pub(crate) address: String,
    /// Times in seconds since 1970.
    pub(crate) created_at: i64,
    pub(crate) expires_at: i64,
    /// True if an operator denied the request.
    pub(crate) denied: bool,
}

/// A request to insert.
pub(crate) struct NewRequest {
    pub(crate) code: String,
    pub(crate) network: Option<NetworkId>,
    pub(crate) machine_key: PublicKey,
    pub(crate) node_key: PublicKey,
    pub(crate) name: String,
    pub(crate) program: String,
    pub(crate) address: String,
    pub(crate) from: Origin,
    pub(crate) expires_at: i64,
}

/// Numbers of requests: all, those from one prefix, and those from one address.
pub(crate) struct RequestCounts {
    pub(crate) all: u64,
    pub(crate) site: u64,
    pub(crate) host: u64,
}

fn request(row: &Row) -> Result<RequestRow, StoreError> {
    let network: Option<Vec<u8>> = row.get("network")?;
    let network = network.map(TryInto::try_into).transpose();
    Ok(RequestRow {
        id: row.get("id")?,
        code: row.get("code")?,
        network: network.map_err(|_| StoreError::Damaged("a value of the wrong length"))?.map(NetworkId),
        machine_key: PublicKey(bytes(row, "machine_key")?),
        node_key: PublicKey(bytes(row, "node_key")?),
        name: row.get("name")?,
        program: row.get("program")?,
        address: row.get("address")?,
        created_at: row.get("created_at")?,
        expires_at: row.get("expires_at")?,
        denied: row.get("denied")?,
    })
}

impl Reading {
    /// Returns all requests, oldest first.
    pub(crate) async fn requests(&mut self) -> Result<Vec<RequestRow>, StoreError> {
        let rows = self.all(concat!("SELECT ", request_columns!(), " FROM requests ORDER BY id"), &[]).await?;
        Ok(self.valid("requests", &rows, request))
    }

    /// Returns the request of a machine.
    pub(crate) async fn request_of(&mut self, machine: PublicKey) -> Result<Option<RequestRow>, StoreError> {
        let sql = concat!("SELECT ", request_columns!(), " FROM requests WHERE machine_key = $1");
        let row = self.optional(sql, &[(&machine.0).into()]).await?;
        row.as_ref().map(|row| parsed("requests", row, request)).transpose()
    }

    /// Returns the request with this code.
    pub(crate) async fn request_by_code(&mut self, code: &str) -> Result<Option<RequestRow>, StoreError> {
        let sql = concat!("SELECT ", request_columns!(), " FROM requests WHERE code = $1");
        let row = self.optional(sql, &[code.into()]).await?;
        row.as_ref().map(|row| parsed("requests", row, request)).transpose()
    }

    /// Returns the number of requests.
    pub(crate) async fn count_requests(&mut self, from: &Origin) -> Result<RequestCounts, StoreError> {
        let row = self
            .one(
                "SELECT count(*) AS of_all, count(*) FILTER (WHERE site = $1) AS of_site, \
                 count(*) FILTER (WHERE host = $2) AS of_host FROM requests",
                &[(&from.site).into(), (&from.host).into()],
            )
            .await?;
        let count = |column| unsigned(row.get(column)?);
        Ok(RequestCounts { all: count("of_all")?, site: count("of_site")?, host: count("of_host")? })
    }

    /// Returns the networks of which this machine is a member.
    pub(crate) async fn networks_of(&mut self, machine: PublicKey) -> Result<Vec<NetworkId>, StoreError> {
        let sql = "SELECT network FROM nodes WHERE machine_key = $1 AND removed_at IS NULL ORDER BY id DESC";
        let rows = self.all(sql, &[(&machine.0).into()]).await?;
        Ok(rows.iter().filter_map(|row| bytes(row, "network").ok().map(NetworkId)).collect())
    }
}

impl Writing {
    /// Inserts a request.
    pub(crate) async fn insert_request(&mut self, new: &NewRequest, now: i64) -> Result<RequestRow, StoreError> {
        let network = new.network.as_ref().map(|network| network.0.as_slice());
        let row = self
            .one(
                concat!(
                    "INSERT INTO requests (code, network, machine_key, node_key, name, program, address, host, site, created_at, expires_at) \
                     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) RETURNING ",
                    request_columns!()
                ),
                &[
                    (&new.code).into(),
                    network.into(),
                    (&new.machine_key.0).into(),
                    (&new.node_key.0).into(),
                    (&new.name).into(),
                    (&new.program).into(),
                    (&new.address).into(),
                    (&new.from.host).into(),
                    (&new.from.site).into(),
                    now.into(),
                    new.expires_at.into(),
                ],
            )
            .await?;
        request(&row)
    }

    /// Deletes a request. Returns false if another transaction deleted it first.
    pub(crate) async fn delete_request(&mut self, id: i64) -> Result<bool, StoreError> {
        Ok(self.execute("DELETE FROM requests WHERE id = $1", &[id.into()]).await? > 0)
    }

    /// Marks a request as denied, until `expires_at`.
    pub(crate) async fn deny_request(&mut self, id: i64, expires_at: i64) -> Result<(), StoreError> {
        let deny = "UPDATE requests SET denied = 1, expires_at = $1 WHERE id = $2";
        self.execute(deny, &[expires_at.into(), id.into()]).await?;
        Ok(())
    }

    /// Deletes the requests that expired at `now` or earlier, or were made after `latest`, while the clock was ahead.
    pub(crate) async fn forget_requests(&mut self, now: i64, latest: i64) -> Result<u64, StoreError> {
        let sql = "DELETE FROM requests WHERE expires_at <= $1 OR created_at > $2";
        self.execute(sql, &[now.into(), latest.into()]).await
    }

    /// Deletes the oldest request of the prefix that has the most.
    pub(crate) async fn evict_request(&mut self) -> Result<(), StoreError> {
        let sql = "DELETE FROM requests WHERE id = (SELECT min(id) FROM requests WHERE site = \
                   (SELECT site FROM requests GROUP BY site ORDER BY count(*) DESC, site LIMIT 1))";
        self.execute(sql, &[]).await?;
        Ok(())
    }
}
