//! The database: rows and statements. The only module that names sqlx; it knows no rules.
//!
//! ```text
//! Store ──▶ Reading, Writing: statements (nodes.rs, networks.rs, …) ──▶ trait Transaction ──▶ sqlite/, postgres/
//! ```
//! [`Store::read`] returns one consistent view. [`Store::write`] returns the only write transaction: changes wait for it instead of failing with "database is
//! locked" (fault O5). A transaction that is dropped without [`Writing::commit`] has no effect. Each [`Party`] gets both in turn, so that the many requests of
//! one party do not delay the others.

#[macro_use]
mod columns;
mod causes;
mod cells;
mod check;
mod damage;
mod damaged_row;
mod database;
mod device_rows;
mod devices;
#[cfg(test)]
mod dumps;
mod error;
mod fair_semaphore;
#[cfg(test)]
mod held;
mod keys;
mod location;
mod migrations;
mod networks;
mod nodes;
mod operators;
mod people;
mod policies;
mod postgres;
mod relays;
mod replica;
mod requests;
mod restored;
mod revocations;
mod rows;
mod sqlite;
mod transfer;
mod value;
mod webhooks;

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;

pub(crate) use check::WAS_MOVED;
use damage::DamagedRows;
pub(crate) use damaged_row::DamagedRow;
use database::{Database, Transaction};
pub(crate) use device_rows::{Device, Grants, Part};
pub(crate) use devices::EphemeralRow;
#[cfg(test)]
pub(crate) use dumps::{Contents, Dump, DumpedRow, contents, interrupted, migrations as dumped_migrations};
pub(crate) use error::{StoreError, undamaged};
use fair_semaphore::{FairSemaphore, Permit};
#[cfg(test)]
pub(crate) use held::HeldLock;
pub(crate) use location::Location;
pub(crate) use networks::MARKED;
pub(crate) use nodes::MANY_NODES;
pub(crate) use people::{
    AuditFilter, AuditRow, GroupsRow, LOCAL, NewAudit, NewPerson, NewSession, NewToken, PersonRow, SessionRow,
    TokenRow, TotpRow,
};
pub(crate) use policies::PolicyRow;
#[cfg(test)]
pub(crate) use postgres::{
    SilentLine, StuckServer, TableLock, count, end_connections, execute, forbid_connections, forbid_writes,
    forget_database, location_for_test,
};
pub(crate) use replica::{Announced, Hint, PresenceRow, REMOVED, Replica};
pub(crate) use requests::{NewRequest, RequestRow};
pub(crate) use restored::LastKnown;
pub(crate) use revocations::RevocationRow;
pub(crate) use rows::{
    KeyRow, Marks, NetworkId, NetworkRow, NewKey, NewNode, NewRelay, NodeRow, NodeRows, OperatorRow, Origin, RelayRow,
};
#[cfg(test)]
pub(crate) use sqlite::{BlockingConnection, execute_on_file};
pub(crate) use sqlite::{
    FILE, copy, give_to_owner, is_open_elsewhere, last_known, make_directory, open_private, prepare,
};
use value::{Row, Value};
pub(crate) use webhooks::{Attempted, NewWebhook, WebhookRow};

use crate::figures::{DatabaseFigures, Histogram};

/// Time for which a request waits for a permit before it is refused as unavailable, 10 s.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(10);

/// The party for which the database is used. Parties take turns, independently of the number of their requests (law 15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Party {
    /// The coordinator itself.
    Coordinator,
    /// Operators with a valid token.
    Operators,
    /// Nodes of an existing network, and nodes that want to join it.
    Network(NetworkId),
    /// Unauthenticated requests.
    Unauthenticated,
}

/// What a program opens a database for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// To serve its networks.
    Serve,
    /// To copy everything into it. Nobody serves it.
    Copy,
    /// For a single change, beside programs that serve them. The tables have to be this program's.
    Change,
}

/// The open database.
pub(crate) struct Store {
    reads: FairSemaphore<Party>,
    writes: FairSemaphore<Party>,
    database: Box<dyn Database>,
    figures: Arc<DatabaseFigures>,
    damaged: Arc<DamagedRows>,
}

impl Store {
    /// Opens the database, and updates its tables. Creates what does not exist.
    pub(crate) async fn open(location: &Location, purpose: Purpose) -> Result<Self, StoreError> {
        Ok(match location {
            Location::Directory(directory) => Self::with(Box::new(sqlite::SqliteDatabase::open(directory).await?)),
            Location::Server(url) => Self::with(Box::new(postgres::PostgresDatabase::open(url, purpose).await?)),
        })
    }

    fn with(database: Box<dyn Database>) -> Self {
        Self {
            reads: FairSemaphore::new(database.readers()),
            writes: FairSemaphore::new(1),
            database,
            figures: Arc::default(),
            damaged: Arc::default(),
        }
    }

    /// Returns a consistent view of the database.
    pub(crate) async fn read(&self, party: Party) -> Result<Reading, StoreError> {
        let begin = async {
            let permit = timeout(PERMIT_TIMEOUT, self.reads.take(party)).await.map_err(|_| StoreError::Busy)?;
            self.database.begin_read(permit).await
        };
        let tx = noted(&self.figures, &self.figures.read, begin).await?;
        Ok(self.reading(tx))
    }

    /// Returns the write transaction.
    pub(crate) async fn write(&self, party: Party) -> Result<Writing, StoreError> {
        let begin = async {
            let permit = timeout(PERMIT_TIMEOUT, self.writes.take(party)).await.map_err(|_| StoreError::Busy)?;
            self.database.begin_write(permit).await
        };
        let tx = noted(&self.figures, &self.figures.write, begin).await?;
        Ok(Writing { reading: self.reading(tx) })
    }

    fn reading(&self, tx: Box<dyn Transaction>) -> Reading {
        Reading { tx, figures: Arc::clone(&self.figures), damaged: Arc::clone(&self.damaged) }
    }

    /// Returns what the database was used for.
    pub(crate) fn figures(&self) -> &DatabaseFigures {
        &self.figures
    }

    /// Returns the number of callers that wait for their turn to read.
    pub(crate) fn waiting_readers(&self) -> usize {
        self.reads.waiting()
    }

    /// Returns the number of callers that wait for their turn to write.
    pub(crate) fn waiting_writers(&self) -> usize {
        self.writes.waiting()
    }

    /// Returns for how long the database has not answered, as far as that is known.
    pub(crate) fn silence(&self) -> Duration {
        self.database.silence()
    }

    /// Returns an error if a coordinator serves this database on any host.
    pub(crate) async fn expect_unserved(&self) -> Result<(), StoreError> {
        self.database.expect_unserved().await
    }

    /// Returns this coordinator's link to the others that serve the database; `None` if there can be no others.
    pub(crate) fn replica(&self) -> Option<Box<dyn Replica>> {
        self.database.replica()
    }

    /// Returns the size of the log in percent of its limit.
    pub(crate) fn log_share(&self) -> u64 {
        self.database.log_share()
    }

    /// Sets the limit of the log, in bytes.
    #[cfg(test)]
    pub(crate) fn set_log_limit(&self, largest: u64) {
        self.database.set_log_limit(largest);
    }

    /// Executes a statement, as a person at the database would.
    #[cfg(test)]
    pub(crate) async fn edit(&self, sql: &'static str) {
        let mut tx = self.write(Party::Coordinator).await.unwrap();
        tx.execute(self.database.dialect(sql), &[]).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// Waits for running transactions, and ends the connections.
    pub(crate) async fn close(&self) {
        // Committed changes are safe. A connection that closes with an error changes nothing about that.
        let _ = self.database.close().await;
    }
}

/// Returns descriptions of all damages of a database. A coordinator may be running on it.
pub(crate) async fn check(location: &Location) -> Result<Vec<String>, StoreError> {
    match location {
        Location::Directory(directory) => sqlite::check(directory).await,
        Location::Server(url) => postgres::check(url).await,
    }
}

/// Returns a view of a database that coordinators may be serving; `None` if its tables are those of another release.
pub(crate) async fn view(location: &Location) -> Result<Option<Reading>, StoreError> {
    match location {
        Location::Directory(directory) => sqlite::view(directory).await,
        Location::Server(_) => Store::open(location, Purpose::Change).await?.read(Party::Coordinator).await.map(Some),
    }
}

/// A read transaction. Its methods are the statements that read.
pub(crate) struct Reading {
    tx: Box<dyn Transaction>,
    figures: Arc<DatabaseFigures>,
    damaged: Arc<DamagedRows>,
}

/// Counts a step of a transaction: how long it took, or that it failed.
async fn noted<T>(
    figures: &DatabaseFigures,
    took: &Histogram,
    step: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let begin = Instant::now();
    let result = step.await;
    match &result {
        Ok(_) => took.note(begin.elapsed()),
        Err(StoreError::Busy) => figures.busy.add(1),
        Err(error) if error.is_silence() => figures.silent.add(1),
        Err(_) => figures.failed.add(1),
    }
    result
}

impl Reading {
    async fn all(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
        self.tx.rows(sql, values).await
    }

    async fn optional(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<Option<Row>, StoreError> {
        Ok(self.tx.rows(sql, values).await?.into_iter().next())
    }

    /// For statements that always return a row.
    async fn one(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<Row, StoreError> {
        self.optional(sql, values).await?.ok_or(StoreError::Damaged("a row that should exist is missing"))
    }
}

/// A write transaction. Its methods are the statements that write.
pub(crate) struct Writing {
    reading: Reading,
}

impl Writing {
    /// Commits the transaction. Its changes then survive a loss of power.
    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        let Reading { tx, figures, .. } = self.reading;
        noted(&figures, &figures.commit, tx.commit()).await
    }

    /// Lifts the limits on the time of statements, for a copy of everything.
    pub(crate) async fn unlimited(&mut self) -> Result<(), StoreError> {
        self.tx.unlimited().await
    }

    /// Keeps everybody from changing anything in this database once the transaction is committed.
    pub(crate) async fn fence(&mut self) -> Result<(), StoreError> {
        self.reading.tx.fence().await
    }

    async fn execute(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<u64, StoreError> {
        self.tx.execute(sql, values).await
    }
}

impl Deref for Writing {
    type Target = Reading;

    fn deref(&self) -> &Reading {
        &self.reading
    }
}

impl DerefMut for Writing {
    fn deref_mut(&mut self) -> &mut Reading {
        &mut self.reading
    }
}
