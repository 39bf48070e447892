//! What the store needs of a database. SQLite and PostgreSQL have it; statements are the same for both (`nodes.rs`, `networks.rs`, …).

use std::time::Duration;

use super::error::Answer;
use super::replica::Replica;
use super::value::{Row, Value};
use super::{NetworkId, Party, Permit};

/// An open database.
pub(super) trait Database: Send + Sync {
    /// Transactions that may read at the same time.
    fn readers(&self) -> usize;

    /// Begins a transaction that sees one state of all tables, and can change nothing. The permit is given back when nothing of the transaction is left in the
    /// database.
    fn begin_read(&self, permit: Permit<Party>) -> Answer<'_, Box<dyn Transaction>>;

    /// Begins a transaction that may change everything. Until it ends no other one changes anything, in whichever program, so that nothing changes between what
    /// it reads and what it writes.
    fn begin_write(&self, permit: Permit<Party>) -> Answer<'_, Box<dyn Transaction>>;

    /// Returns the size of a log that grows, in percent of its limit; 0 if there is none that the coordinator must watch.
    fn log_share(&self) -> u64 {
        0
    }

    /// Returns for how long the database has not answered, as far as that is known.
    fn silence(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns an error if a coordinator serves this database on any host.
    fn expect_unserved(&self) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Returns this coordinator's link to the others that serve the database; `None` if there can be no others.
    fn replica(&self) -> Option<Box<dyn Replica>> {
        None
    }

    /// Sets the limit of that log, in bytes.
    #[cfg(test)]
    fn set_log_limit(&self, _largest: u64) {}

    /// Returns a statement of a test, which is written for SQLite, in the words of this database.
    #[cfg(test)]
    fn dialect(&self, sql: &'static str) -> &'static str {
        sql
    }

    /// Waits for running transactions, and ends the connections.
    fn close(&self) -> Answer<'_, ()>;
}

/// A transaction. Dropped without [`Transaction::commit`] it has no effect.
pub(super) trait Transaction: Send {
    /// Executes a statement, and returns its rows.
    fn rows<'a>(&'a mut self, sql: &'static str, values: &'a [Value<'a>]) -> Answer<'a, Vec<Row>>;

    /// Executes a statement, and returns the number of rows that it changed.
    fn execute<'a>(&'a mut self, sql: &'static str, values: &'a [Value<'a>]) -> Answer<'a, u64>;

    /// Returns the number that a table gave to a row last; 0 if it gave none.
    fn last_number(&mut self, table: Table) -> Answer<'_, i64>;

    /// Tells the other coordinators, if the transaction is committed, that a network has this version.
    fn hint(&mut self, _network: NetworkId, _version: u64) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Lifts the limits on the time of statements, for a copy of everything.
    fn unlimited(&mut self) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Keeps everybody from changing anything in this database once the transaction is committed, also programs that were stopped in the meantime.
    fn fence(&mut self) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Has a table go on after this number. It must not be less than the last one.
    fn set_last_number(&mut self, table: Table, last: i64) -> Answer<'_, ()>;

    /// Commits the transaction. Its changes then survive a loss of power.
    fn commit(self: Box<Self>) -> Answer<'static, ()>;
}

/// A table whose rows have numbers that are never given twice.
#[derive(Clone, Copy, Debug)]
pub(super) enum Table {
    Nodes,
    Keys,
    Relays,
    Operators,
    Revocations,
    Requests,
    People,
    Tokens,
    Sessions,
    Links,
    Audit,
    Webhooks,
}

impl Table {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Keys => "keys",
            Self::Relays => "relays",
            Self::Operators => "operators",
            Self::Revocations => "revocations",
            Self::Requests => "requests",
            Self::People => "people",
            Self::Tokens => "tokens",
            Self::Sessions => "sessions",
            Self::Links => "links",
            Self::Audit => "audit",
            Self::Webhooks => "webhooks",
        }
    }

    /// Returns the statement that reads the largest number in the table.
    pub(super) fn largest(self) -> &'static str {
        match self {
            Self::Nodes => "SELECT coalesce(max(id), 0) FROM nodes",
            Self::Keys => "SELECT coalesce(max(id), 0) FROM keys",
            Self::Relays => "SELECT coalesce(max(id), 0) FROM relays",
            Self::Operators => "SELECT coalesce(max(id), 0) FROM operators",
            Self::Revocations => "SELECT coalesce(max(id), 0) FROM revocations",
            Self::Requests => "SELECT coalesce(max(id), 0) FROM requests",
            Self::People => "SELECT coalesce(max(id), 0) FROM people",
            Self::Tokens => "SELECT coalesce(max(id), 0) FROM tokens",
            Self::Sessions => "SELECT coalesce(max(id), 0) FROM sessions",
            Self::Links => "SELECT coalesce(max(id), 0) FROM links",
            Self::Audit => "SELECT coalesce(max(id), 0) FROM audit",
            Self::Webhooks => "SELECT coalesce(max(id), 0) FROM webhooks",
        }
    }
}
