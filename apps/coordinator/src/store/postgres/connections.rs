//! The connections to the server. Each belongs to one transaction at a time.
//!
//! They are kept here and not in sqlx's pool. The reason: that pool asks each connection that comes back whether it lives, and waits for the answer without a
//! limit. A few connections that went silent, as after a firewall forgot them, would occupy all its places for good.
//!
//! A transaction takes a connection that is kept, or opens one; the store's permits limit how many there are. It gives the connection back only after it ended the
//! transaction within a limit. In any other case the connection is dropped, and the server ends what it was doing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{Connection as _, Executor};
use tokio::time::timeout;

use super::StoreError;
use super::options::place;
use crate::store::causes::{ends_connection, is_unreachable, told};

/// Settings of each connection:
/// - Time limits of 15 s for a statement, 5 s for a lock and 15 s for an idle transaction. A stuck server then answers with an error, and a coordinator that stops in
///   a transaction does not keep the lock of the writers. Connections outside a transaction may be idle for any time.
/// - TCP keepalives and `tcp_user_timeout`, by which the server notices within 25 s that a coordinator's host is gone.
/// - `synchronous_commit` is switched on if it is off, so that an acknowledged change survives a loss of power (fault O2).
pub(super) const SETTINGS: &str = "SET statement_timeout = '15s'; SET lock_timeout = '5s'; \
     SET idle_in_transaction_session_timeout = '15s'; SET idle_session_timeout = 0; \
     SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3; SET tcp_user_timeout = 25000; \
     SELECT pg_catalog.set_config('synchronous_commit', 'on', false) WHERE pg_catalog.current_setting('synchronous_commit') = 'off'";

/// Time after which a connection is renewed, 30 minutes, so that a server that moved is found by its name again.
const LIFETIME: Duration = Duration::from_secs(1_800);

/// Timeout of a connection attempt, 3 s. A reachable server answers within milliseconds, and the request that waits holds one of the few permits.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Time within which a connection that was kept has to begin a transaction, 7 s: more than the server lets it wait for the lock of the writers.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(7);

/// Time within which a transaction without effect has to end, 5 s.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// Least time after a failed attempt to connect for which no other is made, 250 ms: a server that refuses while it starts is asked four times a second.
const LEAST_PAUSE: Duration = Duration::from_millis(250);

/// The connections that no transaction has.
pub(super) struct Connections {
    options: PgConnectOptions,
    kept: Mutex<Vec<Connection>>,
    /// Until when no attempt to connect is made because the last one failed, and why it did.
    failed: Mutex<Option<(Instant, String)>>,
    /// When the server answered last.
    answered: Mutex<Instant>,
    /// The program ends, and opens no connection any more.
    is_closed: AtomicBool,
}

/// A connection.
pub(super) struct Connection {
    pub(super) raw: PgConnection,
    opened: Instant,
}

impl Connections {
    pub(super) fn new(options: PgConnectOptions) -> Self {
        let (kept, failed, answered) = (Mutex::default(), Mutex::default(), Mutex::new(Instant::now()));
        Self { options, kept, failed, answered, is_closed: AtomicBool::new(false) }
    }

    /// Returns a connection on which `begin` was executed.
    pub(super) async fn begin(&self, begin: &'static str) -> Result<Connection, StoreError> {
        // Those that ended while nobody used them are found one after the other, without waiting.
        while let Some(mut connection) = self.kept() {
            match timeout(BEGIN_TIMEOUT, connection.raw.execute(begin)).await {
                Ok(Ok(_)) => {
                    self.note_answer();
                    return Ok(connection);
                }
                Ok(Err(error)) if ends_connection(&error) => {}
                Ok(Err(error)) => return Err(error.into()),
                // The others lead to the same silence.
                Err(_) => lock(&self.kept).clear(),
            }
        }
        let mut connection = self.connect().await?;
        match timeout(BEGIN_TIMEOUT, connection.raw.execute(begin)).await {
            Ok(begun) => begun?,
            Err(_) => return Err(StoreError::Slow),
        };
        Ok(connection)
    }

    pub(super) fn options(&self) -> &PgConnectOptions {
        &self.options
    }

    /// Opens a connection. Fails at once if that was tried in vain a moment ago.
    pub(super) async fn connect(&self) -> Result<Connection, StoreError> {
        if let Some((_, why)) = lock(&self.failed).as_ref().filter(|(until, _)| Instant::now() < *until) {
            return Err(StoreError::NoConnection(why.clone()));
        }
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(StoreError::NoConnection(String::from("the database cannot be reached: the coordinator ends")));
        }
        let began = Instant::now();
        let opened = timeout(CONNECT_TIMEOUT, async {
            let mut raw = PgConnection::connect_with(&self.options).await?;
            raw.execute(SETTINGS).await?;
            Ok::<_, sqlx::Error>(raw)
        });
        let why = match opened.await {
            Ok(Ok(raw)) => {
                *lock(&self.failed) = None;
                self.note_answer();
                return Ok(Connection { raw, opened: Instant::now() });
            }
            Ok(Err(error)) => told(&error),
            Err(_) => format!(
                "the database cannot be reached: its server did not answer within {} s",
                CONNECT_TIMEOUT.as_secs()
            ),
        };
        let why = format!("{why}; the server is {}", place(&self.options));
        *lock(&self.failed) = Some((Instant::now() + pause_after(began.elapsed()), why.clone()));
        Err(StoreError::NoConnection(why))
    }

    /// Ends a transaction without effect, and keeps the connection if that succeeds.
    pub(super) async fn roll_back(&self, mut connection: Connection) {
        if let Ok(Ok(_)) = timeout(END_TIMEOUT, connection.raw.execute("ROLLBACK")).await {
            self.keep(connection);
        }
    }

    /// Keeps a connection without a transaction for the next one.
    pub(super) fn keep(&self, connection: Connection) {
        self.note_answer();
        let mut kept = lock(&self.kept);
        if connection.opened.elapsed() < LIFETIME && !self.is_closed.load(Ordering::Relaxed) {
            kept.push(connection);
        }
    }

    fn kept(&self) -> Option<Connection> {
        let mut kept = lock(&self.kept);
        kept.retain(|connection| connection.opened.elapsed() < LIFETIME);
        // The latest one: those that are not needed get old.
        kept.pop()
    }

    /// Notes that the server answered.
    pub(super) fn note_answer(&self) {
        *lock(&self.answered) = Instant::now();
    }

    /// Returns for how long the server has not answered.
    pub(super) fn silence(&self) -> Duration {
        lock(&self.answered).elapsed()
    }

    /// Ends the connections that no transaction has.
    pub(super) async fn close(&self) {
        let kept = {
            let mut kept = lock(&self.kept);
            // With the lock, so that none is kept afterwards.
            self.is_closed.store(true, Ordering::Relaxed);
            std::mem::take(&mut *kept)
        };
        for connection in kept {
            // The server notices the end in any case.
            let _ = timeout(END_TIMEOUT, connection.raw.close()).await;
        }
    }
}

/// Returns the time without attempts after one that failed within `took`: as long as it took, so that requests fail at once instead of waiting for each other.
fn pause_after(took: Duration) -> Duration {
    took.max(LEAST_PAUSE)
}

/// Returns the failure of a statement.
pub(super) fn failure(error: sqlx::Error) -> StoreError {
    if is_unreachable(&error) { StoreError::NoConnection(told(&error)) } else { error.into() }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is left incomplete by a panic, because every change is one call.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_refusal_the_next_attempt_is_soon_and_after_a_silence_it_is_not() {
        assert_eq!(pause_after(Duration::from_millis(2)), LEAST_PAUSE);
        assert_eq!(pause_after(CONNECT_TIMEOUT), CONNECT_TIMEOUT);
    }

    #[tokio::test]
    async fn requests_fail_without_an_attempt_until_the_pause_is_over() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections =
            Connections::new(PgConnectOptions::new().host("127.0.0.1").port(address.port()).username("nobody"));
        // The server ends each connection at once, as while it starts.
        let refusing = tokio::spawn(async move {
            for _ in 0..2 {
                drop(listener.accept().await.unwrap());
            }
        });
        assert!(connections.connect().await.is_err());
        // They fail at once.
        let began = Instant::now();
        let mut requests = 0;
        while !refusing.is_finished() {
            assert!(connections.connect().await.is_err());
            requests += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(requests > 2, "each request made an attempt");
        assert!(began.elapsed() >= LEAST_PAUSE / 2, "{:?}", began.elapsed());
    }
}
