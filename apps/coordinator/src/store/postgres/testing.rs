//! Databases of tests, on the server that `TAUT_TEST_POSTGRES` names (tools/with_postgres starts one).

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, query, query_scalar};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use zeroize::Zeroizing;

use crate::store::Location;

/// URL of the server, without a database.
const SERVER: &str = "TAUT_TEST_POSTGRES";

/// Returns where a test has its database: on the server if there is one, in a database of its own that is made now if it does not exist; otherwise in the
/// directory.
pub(crate) async fn location_for_test(directory: &Path) -> Location {
    let Ok(server) = std::env::var(SERVER) else { return Location::Directory(directory.to_path_buf()) };
    let name = name(directory);
    let mut connection = connect(&server).await;
    let exists = query_scalar("SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)");
    let exists: bool = exists.bind(&name).fetch_one(&mut connection).await.unwrap();
    if !exists {
        connection.execute(AssertSqlSafe(format!("CREATE DATABASE \"{name}\""))).await.unwrap();
    }
    connection.close().await.unwrap();
    let options = PgConnectOptions::from_str(&server).unwrap().database(&name);
    Location::Server(Zeroizing::new(options.to_url_lossy().to_string()))
}

/// Removes the test's database from the server, if it has one.
pub(crate) async fn forget_database(directory: &Path) {
    let Ok(server) = std::env::var(SERVER) else { return };
    let mut connection = connect(&server).await;
    let drop = format!("DROP DATABASE IF EXISTS \"{}\" WITH (FORCE)", name(directory));
    connection.execute(AssertSqlSafe(drop)).await.unwrap();
    connection.close().await.unwrap();
}

fn name(directory: &Path) -> String {
    directory.file_name().unwrap().to_string_lossy().replace('-', "_")
}

async fn connect(server: &str) -> PgConnection {
    PgConnectOptions::from_str(server).unwrap().connect().await.unwrap()
}

/// The lock of the writers, held by another program.
pub(crate) struct ServerLock(PgConnection);

impl ServerLock {
    /// Takes the lock in the database at `url`.
    pub(crate) async fn take(url: &str) -> Self {
        let mut connection = connect(url).await;
        connection.execute("BEGIN; LOCK TABLE turns IN EXCLUSIVE MODE").await.unwrap();
        Self(connection)
    }

    /// Gives it back.
    pub(crate) async fn release(self) {
        self.0.close().await.unwrap();
    }
}

/// A table that another program has locked: reads of it wait.
pub(crate) struct TableLock(PgConnection);

impl TableLock {
    /// Takes the lock. `None` without a server.
    pub(crate) async fn take(location: &Location, table: &str) -> Option<Self> {
        let Location::Server(url) = location else { return None };
        let mut connection = connect(url).await;
        let lock = format!("BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE");
        connection.execute(AssertSqlSafe(lock)).await.unwrap();
        Some(Self(connection))
    }

    /// Returns true if somebody waits for a lock in this database.
    pub(crate) async fn is_waited_for(&mut self) -> bool {
        let find = "SELECT EXISTS (SELECT 1 FROM pg_locks JOIN pg_database ON pg_database.oid = database WHERE NOT granted AND datname = current_database())";
        query_scalar(find).fetch_one(&mut self.0).await.unwrap()
    }

    /// Gives it back.
    pub(crate) async fn release(self) {
        self.0.close().await.unwrap();
    }
}

/// Returns a statement of a test, which is written for SQLite, in the words of PostgreSQL.
pub(crate) fn translated(sql: &'static str) -> &'static str {
    const WORDS: [(&str, &str); 6] = [
        ("unixepoch()", "CAST(floor(extract(epoch FROM now())) AS BIGINT)"),
        ("randomblob(32)", "sha256(CAST(CAST(gen_random_uuid() AS TEXT) AS BYTEA))"),
        ("randomblob(16)", "substring(sha256(CAST(CAST(gen_random_uuid() AS TEXT) AS BYTEA)) FROM 1 FOR 16)"),
        ("randomblob(4)", "substring(sha256(CAST(CAST(gen_random_uuid() AS TEXT) AS BYTEA)) FROM 1 FOR 4)"),
        // PostgreSQL stores valid UTF-8 only. Nodes refuse this name as well.
        ("CAST(x'2e2e00ff' AS TEXT)", "'..'"),
        // Bytes in hex digits.
        (" x'", " '\\x"),
    ];
    let translated = WORDS.iter().fold(String::from(sql), |sql, (from, to)| sql.replace(from, to));
    Box::leak(translated.into_boxed_str())
}

/// Ends all connections to a test's database, as a server that restarts does. `None` without a server.
pub(crate) async fn end_connections(location: &Location) -> Option<()> {
    let Location::Server(url) = location else { return None };
    let mut connection = connect(url).await;
    let end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    query(end).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    Some(())
}

/// Keeps everybody out of a test's database, and ends the connections, as a server that is gone does; or admits everybody again.
pub(crate) async fn forbid_connections(location: &Location, forbidden: bool) -> Option<()> {
    alter(location, &format!("WITH ALLOW_CONNECTIONS {}", !forbidden), forbidden).await
}

/// Makes a test's database read-only, as providers do whose disk is full and as a standby is; or no longer.
pub(crate) async fn forbid_writes(location: &Location, forbidden: bool) -> Option<()> {
    alter(location, &format!("SET default_transaction_read_only = {forbidden}"), true).await
}

async fn alter(location: &Location, change: &str, end: bool) -> Option<()> {
    let Location::Server(url) = location else { return None };
    let options = PgConnectOptions::from_str(url).unwrap();
    let name = options.get_database().unwrap().to_owned();
    let mut connection = connect(&std::env::var(SERVER).unwrap()).await;
    connection.execute(AssertSqlSafe(format!("ALTER DATABASE \"{name}\" {change}"))).await.unwrap();
    if end {
        let end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1";
        query(end).bind(name).execute(&mut connection).await.unwrap();
    }
    connection.close().await.unwrap();
    Some(())
}

/// The server's processes of the connections to one database, stopped by a signal, as on a host that hangs. Others answer.
pub(crate) struct StuckServer(Vec<i32>);

impl StuckServer {
    /// Stops them. `None` without a server.
    pub(crate) async fn stop(location: &Location) -> Option<Self> {
        let Location::Server(url) = location else { return None };
        let mut connection = connect(url).await;
        let find = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
        let found: Vec<i32> = query_scalar(find).fetch_all(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        signal("-STOP", &found);
        Some(Self(found))
    }

    /// Has them go on.
    pub(crate) fn go_on(self) {
        drop(self);
    }
}

impl Drop for StuckServer {
    fn drop(&mut self) {
        signal("-CONT", &self.0);
    }
}

fn signal(name: &str, processes: &[i32]) {
    for process in processes {
        // One that has ended meanwhile is no failure.
        let _ = std::process::Command::new("kill").args([name, &process.to_string()]).status();
    }
}

/// A line between a coordinator and the server on which connections can go silent, as behind a firewall that forgot them.
pub(crate) struct SilentLine {
    location: Location,
    /// Counted up to silence all connections that exist.
    silenced: watch::Sender<u64>,
    /// True while new connections are silent as well.
    is_dead: Arc<AtomicBool>,
    accept: AbortHandle,
}

impl SilentLine {
    /// Starts one to the server of this database, in the runtime of the caller. `None` without a server.
    pub(crate) async fn start(location: &Location) -> Option<Self> {
        let Location::Server(url) = location else { return None };
        let options = PgConnectOptions::from_str(url).unwrap();
        // tools/with_postgres has a server with a socket in a directory only.
        let socket = options.get_socket().unwrap().join(format!(".s.PGSQL.{}", options.get_port()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap();
        let (user, database) = (options.get_username(), options.get_database().unwrap());
        let there = format!("postgres://{user}@{own}/{database}?sslmode=disable");
        let (silenced, silence) = watch::channel(0);
        let is_dead = Arc::new(AtomicBool::new(false));
        let dead = Arc::clone(&is_dead);
        let accept = tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let (socket, mut silence, dead) = (socket.clone(), silence.clone(), Arc::clone(&dead));
                silence.mark_unchanged();
                tokio::spawn(async move {
                    if !dead.load(Ordering::Relaxed) {
                        let mut far = UnixStream::connect(socket).await.unwrap();
                        tokio::select! {
                            _ = copy_bidirectional(&mut near, &mut far) => return,
                            _ = silence.changed() => {}
                        }
                        // The server sees the end, and the coordinator sees nothing.
                        drop(far);
                    }
                    std::future::pending::<()>().await;
                });
            }
        });
        Some(Self {
            location: Location::Server(Zeroizing::new(there)),
            silenced,
            is_dead,
            accept: accept.abort_handle(),
        })
    }

    /// Returns the database behind the line.
    pub(crate) fn location(&self) -> &Location {
        &self.location
    }

    /// Silences all connections, and with `for_good` new ones as well.
    pub(crate) fn silence(&self, for_good: bool) {
        self.is_dead.store(for_good, Ordering::Relaxed);
        self.silenced.send_modify(|count| *count += 1);
    }
}

impl Drop for SilentLine {
    fn drop(&mut self) {
        self.accept.abort();
    }
}

/// Executes statements as another program of the server's would. `None` without a server.
pub(crate) async fn execute(location: &Location, statements: &str) -> Option<()> {
    let Location::Server(url) = location else { return None };
    let mut connection = connect(url).await;
    connection.execute(AssertSqlSafe(statements)).await.unwrap();
    connection.close().await.unwrap();
    Some(())
}

/// Returns the number that a statement returns. `None` without a server.
pub(crate) async fn count(location: &Location, statement: &'static str) -> Option<i64> {
    let Location::Server(url) = location else { return None };
    let mut connection = connect(url).await;
    let count = query_scalar(statement).fetch_one(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    Some(count)
}
