//! Dumps of PostgreSQL databases, for tests, and a server that a program loses at a given message.

use std::collections::BTreeMap;
use std::str::FromStr;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, Row, query, query_scalar};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use super::super::dumps::{Contents, DumpedRow};
use super::{PostgresDatabase, Purpose};

async fn connect(url: &str) -> PgConnection {
    PgConnectOptions::from_str(url).unwrap().connect().await.unwrap()
}

/// Replaces the tables of the database at `url` with a dump.
pub(in crate::store) async fn load(url: &str, statements: String) {
    let mut connection = connect(url).await;
    let all = format!("DROP SCHEMA public CASCADE; CREATE SCHEMA public; {statements}");
    connection.execute(AssertSqlSafe(all)).await.unwrap();
    connection.close().await.unwrap();
}

/// Returns all rows of the database at `url` that a backup has.
pub(in crate::store) async fn contents(url: &str) -> Contents {
    let mut connection = connect(url).await;
    let tables = "SELECT CAST(relname AS TEXT) FROM pg_class WHERE relnamespace = CAST('public' AS regnamespace) \
                  AND relkind = 'r' AND relpersistence = 'p' ORDER BY relname";
    let tables: Vec<String> = query_scalar(tables).fetch_all(&mut connection).await.unwrap();
    let mut found = Contents::new();
    for table in tables {
        let columns = "SELECT CAST(attname AS TEXT) FROM pg_attribute WHERE attrelid = CAST($1 AS regclass) \
                       AND attnum > 0 AND NOT attisdropped ORDER BY attnum";
        let columns: Vec<String> = query_scalar(columns).bind(&table).fetch_all(&mut connection).await.unwrap();
        let quoted: Vec<String> = columns
            .iter()
            .map(|column| format!("coalesce(quote_literal(CAST(\"{column}\" AS TEXT)), 'NULL')"))
            .collect();
        let read = AssertSqlSafe(format!("SELECT {} FROM \"{table}\"", quoted.join(", ")));
        let rows = query(read).fetch_all(&mut connection).await.unwrap();
        let value = |row: &PgRow, place| row.get::<String, _>(place);
        let dumped = |row| -> DumpedRow {
            columns
                .iter()
                .enumerate()
                .map(|(place, column)| (column.clone(), value(row, place)))
                .collect::<BTreeMap<_, _>>()
        };
        found.insert(table, rows.iter().map(dumped).collect());
    }
    let last =
        "SELECT CAST(sequencename AS TEXT), coalesce(CAST(last_value AS TEXT), '0') FROM pg_sequences ORDER BY 1";
    let last = query(last).fetch_all(&mut connection).await.unwrap();
    let last =
        last.iter().map(|row| BTreeMap::from([(String::from("name"), row.get(0)), (String::from("last"), row.get(1))]));
    found.insert(String::from("sequences"), last.collect());
    connection.close().await.unwrap();
    found
}

/// Opens the database at `url` over a connection that ends after this number of messages to the server. Returns true if that was too early, after the server has
/// ended what it was doing.
pub(in crate::store) async fn interrupted(url: &str, messages: u64) -> bool {
    let options = PgConnectOptions::from_str(url).unwrap();
    let socket = options.get_socket().unwrap().join(format!(".s.PGSQL.{}", options.get_port()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (user, database) = (options.get_username(), options.get_database().unwrap());
    let there = format!("postgres://{user}@{}/{database}?sslmode=disable", listener.local_addr().unwrap());
    let line = async {
        let mut left = messages;
        loop {
            let (near, _) = listener.accept().await.unwrap();
            carry(near, UnixStream::connect(&socket).await.unwrap(), &mut left).await;
        }
    };
    let opened = tokio::select! {
        opened = PostgresDatabase::open(&there, Purpose::Copy) => opened.is_ok(),
        () = line => false,
    };
    let mut connection = connect(url).await;
    let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    while query_scalar::<_, i64>(others).fetch_one(&mut connection).await.unwrap() > 0 {
        tokio::task::yield_now().await;
    }
    connection.close().await.unwrap();
    !opened
}

/// Carries messages in both directions until `left` are left for the server, or one side ends.
async fn carry(near: TcpStream, far: UnixStream, left: &mut u64) {
    let ((mut from_near, mut to_near), (mut from_far, mut to_far)) = (near.into_split(), far.into_split());
    let to_server = async {
        // The first message has no type.
        let mut head = 4;
        while *left > 0 {
            let mut message = vec![0; head];
            if from_near.read_exact(&mut message).await.is_err() {
                return;
            }
            let (_, length) = message.split_at(head - 4);
            let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
            message.resize(head - 4 + length, 0);
            if from_near.read_exact(&mut message[head..]).await.is_err() || to_far.write_all(&message).await.is_err() {
                return;
            }
            *left -= 1;
            head = 5;
        }
    };
    tokio::select! {
        () = to_server => {}
        _ = tokio::io::copy(&mut from_far, &mut to_near) => {}
    }
}
