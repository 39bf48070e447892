//! The link between coordinators that serve one database.
//!
//! Hints go through `NOTIFY`, which any role of the server may send, so they carry nothing that is believed: each leads to a read of rows. A commit that changes a
//! network's version sends one.
//!
//! Presence is in two tables without a log, which a crash of the server empties: `replicas` with the coordinators that live, and `presence` with each node's channel.
//! Their changes have numbers in the order of their commits, because each writer locks the table before it draws one. A reader asks for those after the last number
//! that it has read, and misses none.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgConnection, PgListener, PgPoolOptions, PgRow};
use sqlx::{Executor, Row as _, query, query_scalar};
use taut_base::{NodeId, PublicKey};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::StoreError;
use super::connections::{Connection, Connections, SETTINGS, failure};
use crate::log;
use crate::store::NetworkId;
use crate::store::error::Answer;
use crate::store::replica::{Announced, Hint, PresenceRow, Replica};

/// Sends a hint when the transaction is committed.
pub(super) const NOTIFY: &str = "SELECT pg_catalog.pg_notify(CAST('taut' AS TEXT), CAST($1 AS TEXT))";

/// Whether a coordinator serves the database. One that was killed counts until nobody waits for it any more.
pub(super) const IS_SERVED: &str =
    "SELECT EXISTS (SELECT 1 FROM replicas WHERE NOT ended AND seen_at > now() - interval '20 s')";

/// Whether there are coordinators whose nodes have had time to connect to others: 20 s after the last sign of life, 10 s after a regular end.
const ARE_GONE: &str = "SELECT EXISTS (SELECT 1 FROM replicas WHERE seen_at < now() - interval '20 s' OR (ended AND seen_at < now() - interval '10 s'))";

/// Removes them, and declares their nodes offline.
const FORGET: &str = "WITH gone AS (DELETE FROM replicas \
     WHERE seen_at < now() - interval '20 s' OR (ended AND seen_at < now() - interval '10 s') RETURNING id) \
     UPDATE presence SET replica = NULL, change = pg_catalog.nextval(CAST('presence_changes' AS regclass)) \
     WHERE replica IS NOT NULL AND replica NOT IN (SELECT id FROM replicas EXCEPT SELECT id FROM gone)";

/// Shows a sign of life. Returns true if there was none.
const BEAT: &str = "INSERT INTO replicas (id, seen_at) VALUES ($1, now()) \
     ON CONFLICT (id) DO UPDATE SET seen_at = now(), ended = FALSE RETURNING xmax = 0";

/// Numbers of changes are drawn with this lock only. It is not waited for long, because changes of maps wait meanwhile.
const LOCK: &str = "BEGIN; SET LOCAL lock_timeout = '500ms'; LOCK TABLE presence IN SHARE ROW EXCLUSIVE MODE";

const ENTER: &str = "INSERT INTO presence (node, network, replica, run, change) \
     SELECT node, network, $4, run, pg_catalog.nextval(CAST('presence_changes' AS regclass)) \
     FROM unnest($1::BIGINT[], $2::BYTEA[], $3::BIGINT[]) AS entered (node, network, run) \
     ON CONFLICT (node) DO UPDATE SET network = excluded.network, replica = excluded.replica, run = excluded.run, \
     change = pg_catalog.nextval(CAST('presence_changes' AS regclass)) RETURNING node, change";

const LEAVE: &str = "UPDATE presence SET replica = NULL, change = pg_catalog.nextval(CAST('presence_changes' AS regclass)) \
     WHERE node = ANY($1) AND replica = $2";

const SINCE: &str = "SELECT node, network, replica, run, change FROM presence WHERE change > $1 ORDER BY change";

/// Removes presence rows of removed nodes. A coordinator that has not yet read that such a node is offline notices the missing row when it next compares all presence, within a minute.
const SWEEP: &str = "DELETE FROM presence WHERE replica IS NULL \
     AND NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.id = presence.node AND removed_at IS NULL)";

/// Removes what relays said that have no channel any more: to this coordinator, or to one that ended.
const FORGET_RELAYS: &str =
    "DELETE FROM relay_loads WHERE told_at < now() - interval '20 s' OR (replica = $1 AND NOT key = ANY($2))";

const ENTER_RELAYS: &str = "INSERT INTO relay_loads (key, replica, report, told_at) \
     SELECT key, $1, report, now() FROM unnest($2::BYTEA[], $3::TEXT[]) AS said (key, report) \
     ON CONFLICT (key) DO UPDATE SET replica = excluded.replica, report = excluded.report, told_at = excluded.told_at";

const OTHER_RELAYS: &str = "SELECT key, report FROM relay_loads WHERE replica <> $1";

/// Longest time that an answer takes, 10 s. A slower server counts as gone, and everything is compared again when it answers.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Time without an own sign of life among the hints after which the connection that listens is given up, 15 s. There is one every 5 s.
const ECHO_TIMEOUT: Duration = Duration::from_secs(15);

/// Hints that wait, 4,096. With more of them the connection is given up, and everything is compared.
const WAITING: usize = 4_096;

/// Returns the hint that a network has this version.
pub(super) fn network_hint(network: NetworkId, version: u64) -> String {
    format!("network {network} {version}")
}

pub(super) struct PostgresReplica {
    connections: Arc<Connections>,
    id: i64,
    /// For statements. `None` after a failure, up to the next attempt to connect.
    line: Option<Connection>,
    listener: Option<Listener>,
    /// The coordinator was not known when it last showed a sign of life, and the caller has not learned that yet.
    is_new: bool,
}

/// The task that listens.
struct Listener {
    hints: mpsc::Receiver<Hint>,
    /// When this coordinator's own sign of life was among the hints last.
    echo: Arc<Mutex<Instant>>,
    task: AbortHandle,
}

impl PostgresReplica {
    pub(super) fn new(connections: Arc<Connections>, id: i64) -> Self {
        Self { connections, id, line: None, listener: None, is_new: false }
    }

    /// Executes statements on the line, which is dropped if that fails.
    async fn on_line<T>(
        &mut self,
        statements: impl AsyncFnOnce(&mut PgConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, StoreError> {
        let mut line = match self.line.take() {
            Some(line) => line,
            None => self.connections.connect().await?,
        };
        let answer = timeout(ANSWER_TIMEOUT, statements(&mut line.raw)).await.map_err(|_| StoreError::Slow)?;
        let answer = answer.map_err(failure)?;
        self.connections.note_answer();
        self.line = Some(line);
        Ok(answer)
    }
}

impl Replica for PostgresReplica {
    fn id(&self) -> i64 {
        self.id
    }

    fn connect(&mut self) -> Answer<'_, ()> {
        Box::pin(async {
            (self.line, self.listener) = (None, None);
            self.listener = Some(Listener::start(self.connections.options().clone(), self.id).await?);
            Ok(())
        })
    }

    fn beat(&mut self) -> Answer<'_, bool> {
        Box::pin(async {
            let id = self.id;
            // Remembered first: if what follows fails, the next sign of life finds the row.
            let is_new: bool = self.on_line(async |line| query_scalar(BEAT).bind(id).fetch_one(line).await).await?;
            self.is_new |= is_new;
            self.on_line(async |line| query(NOTIFY).bind(format!("beat {id}")).execute(line).await).await?;
            match &self.listener {
                Some(listener) if listener.is_deaf() => Err(StoreError::Slow),
                _ => Ok(std::mem::take(&mut self.is_new)),
            }
        })
    }

    fn forget_dead(&mut self) -> Answer<'_, ()> {
        Box::pin(async {
            self.on_line(async |line| {
                if query_scalar(ARE_GONE).fetch_one(&mut *line).await? {
                    line.execute(LOCK).await?;
                    query(FORGET).execute(&mut *line).await?;
                    query(SWEEP).execute(&mut *line).await?;
                    query(NOTIFY).bind("presence").execute(&mut *line).await?;
                    line.execute("COMMIT").await?;
                }
                Ok(())
            })
            .await
        })
    }

    fn tell<'a>(&'a mut self, entered: &'a [Announced], left: &'a [NodeId]) -> Answer<'a, Vec<i64>> {
        Box::pin(async move {
            let id = self.id;
            let numbers = |nodes: &mut dyn Iterator<Item = NodeId>| nodes.map(|node| node.0 as i64).collect::<Vec<_>>();
            let nodes = numbers(&mut entered.iter().map(|node| node.node));
            let networks: Vec<Vec<u8>> = entered.iter().map(|node| node.network.0.to_vec()).collect();
            let runs: Vec<i64> = entered.iter().map(|node| node.run as i64).collect();
            let left = numbers(&mut left.iter().copied());
            let changes = self.on_line(async |line| {
                line.execute(LOCK).await?;
                let enter = query(ENTER).bind(&nodes).bind(&networks).bind(&runs).bind(id);
                let found = enter.fetch_all(&mut *line).await?;
                query(LEAVE).bind(&left).bind(id).execute(&mut *line).await?;
                query(NOTIFY).bind("presence").execute(&mut *line).await?;
                line.execute("COMMIT").await?;
                found.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<Result<Vec<(i64, i64)>, _>>()
            });
            let changes = changes.await?;
            let change = |node: &i64| changes.iter().find(|(found, _)| found == node).map(|(_, change)| *change);
            nodes.iter().map(|node| change(node).ok_or(StoreError::Damaged("the presence of a node"))).collect()
        })
    }

    fn presence_since(&mut self, change: i64) -> Answer<'_, Vec<PresenceRow>> {
        Box::pin(async move {
            let found = self.on_line(async |line| query(SINCE).bind(change).fetch_all(line).await).await?;
            let row = |row: &PgRow| match presence_row(row) {
                Ok(row) => Some(row),
                // No coordinator wrote it. The rows of other nodes are followed all the same (fault O9).
                Err(error) => {
                    tracing::warn!(target: log::DATABASE, limited = 0, event = "presence-damaged", reason = %error);
                    None
                }
            };
            Ok(found.iter().filter_map(row).collect())
        })
    }

    fn share_relays<'a>(&'a mut self, said: &'a [(PublicKey, String)]) -> Answer<'a, Vec<(PublicKey, String)>> {
        Box::pin(async move {
            let id = self.id;
            let keys: Vec<&[u8]> = said.iter().map(|(key, _)| key.as_bytes().as_slice()).collect();
            let reports: Vec<&str> = said.iter().map(|(_, report)| report.as_str()).collect();
            let found = self.on_line(async |line| {
                query(FORGET_RELAYS).bind(id).bind(&keys).execute(&mut *line).await?;
                if !keys.is_empty() {
                    query(ENTER_RELAYS).bind(id).bind(&keys).bind(&reports).execute(&mut *line).await?;
                }
                let rows = query(OTHER_RELAYS).bind(id).fetch_all(&mut *line).await?;
                rows.iter()
                    .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
                    .collect::<Result<Vec<(Vec<u8>, String)>, _>>()
            });
            let key = |key: Vec<u8>| key.try_into().map(PublicKey).ok();
            Ok(found.await?.into_iter().filter_map(|(bytes, report)| Some((key(bytes)?, report))).collect())
        })
    }

    fn hints(&mut self) -> Answer<'_, Vec<Hint>> {
        Box::pin(async {
            let Some(listener) = &mut self.listener else { return Err(StoreError::Slow) };
            let mut hints = Vec::new();
            match listener.hints.recv_many(&mut hints, WAITING).await {
                0 => {
                    Err(StoreError::NoConnection(String::from("the database server ended the connection that listens")))
                }
                _ => Ok(hints),
            }
        })
    }

    fn leave(&mut self) -> Answer<'_, ()> {
        Box::pin(async {
            let id = self.id;
            self.listener = None;
            let end = "UPDATE replicas SET ended = TRUE, seen_at = now() WHERE id = $1";
            self.on_line(async |line| query(end).bind(id).execute(line).await.map(drop)).await
        })
    }
}

fn presence_row(row: &PgRow) -> Result<PresenceRow, StoreError> {
    let network: Vec<u8> = row.try_get(1)?;
    let network = network.try_into().map_err(|_| StoreError::Damaged("a value of the wrong length"))?;
    let [node, run] = [row.try_get::<i64, _>(0)?, row.try_get(3)?].map(|number| number as u64);
    Ok(PresenceRow {
        node: NodeId(node),
        network: NetworkId(network),
        replica: row.try_get(2)?,
        run,
        change: row.try_get(4)?,
    })
}

impl Listener {
    /// Listens in a task of its own, so that nothing that is half received is lost when the caller turns to something else.
    async fn start(options: PgConnectOptions, id: i64) -> Result<Self, StoreError> {
        let one = PgPoolOptions::new().max_connections(1).acquire_timeout(ANSWER_TIMEOUT);
        let one = one.idle_timeout(None).max_lifetime(None).after_connect(|connection, _| {
            Box::pin(async move {
                connection.execute(SETTINGS).await?;
                Ok(())
            })
        });
        let begin = async {
            let mut listener = PgListener::connect_with(&one.connect_lazy_with(options)).await?;
            listener.eager_reconnect(false);
            listener.listen("taut").await?;
            Ok(listener)
        };
        let mut listener = timeout(ANSWER_TIMEOUT, begin).await.map_err(|_| StoreError::Slow)?.map_err(failure)?;
        let (sender, hints) = mpsc::channel(WAITING);
        let echo = Arc::new(Mutex::new(Instant::now()));
        let (heard, own) = (Arc::clone(&echo), format!("beat {id}"));
        let task = tokio::spawn(async move {
            while let Ok(Some(said)) = listener.try_recv().await {
                if said.payload() == own {
                    *heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
                }
                if let Some(hint) = parse(said.payload())
                    && sender.try_send(hint).is_err()
                {
                    return;
                }
            }
        });
        Ok(Self { hints, echo, task: task.abort_handle() })
    }

    fn is_deaf(&self) -> bool {
        self.echo.lock().unwrap_or_else(PoisonError::into_inner).elapsed() > ECHO_TIMEOUT
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns a hint. `None` for words of a later release, or of another program.
fn parse(said: &str) -> Option<Hint> {
    let mut words = said.split(' ');
    match (words.next()?, words.next(), words.next()) {
        ("presence", None, None) => Some(Hint::Presence),
        ("network", Some(network), Some(version)) => Some(Hint::Network(network.parse().ok()?, version.parse().ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_read_as_they_were_written_and_others_are_left_out() {
        let network = NetworkId([7; 16]);
        assert_eq!(parse(&network_hint(network, 5)), Some(Hint::Network(network, 5)));
        assert_eq!(parse("presence"), Some(Hint::Presence));
        for other in ["", "beat 5", "network 07 5", "network", "presence of mind", "network x -1"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
