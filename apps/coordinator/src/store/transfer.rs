//! All rows of one database into an empty one, of the same or the other kind.

use std::sync::LazyLock;

use super::check::violations;
use super::damage::key;
use super::database::Table;
use super::value::{Cell, Row, Value};
use super::{DamagedRow, Reading, StoreError, Writing};

/// A table as it is copied. Rows are read in the order of their key, so that those of two databases can be compared one by one.
struct Copied {
    name: &'static str,
    read: &'static str,
    write: &'static str,
    /// The type of each column, in the order of both statements.
    columns: &'static [Kind],
    numbered: Option<Table>,
}

/// The type of a column: PostgreSQL's NULL has one.
#[derive(Clone, Copy)]
enum Kind {
    Integer,
    Text,
    Bytes,
}

use Kind::{Bytes, Integer, Text};

/// Rows that one statement writes, 200: a server far away answers once instead of 200 times.
const MANY_ROWS: usize = 200;

/// The statements that write [`MANY_ROWS`] rows of each table.
static FOR_MANY: LazyLock<Vec<&str>> = LazyLock::new(|| TABLES.iter().map(for_many).collect());

/// Returns the statement that writes [`MANY_ROWS`] rows. Called once for each table.
fn for_many(table: &Copied) -> &'static str {
    let (into, _) = table.write.split_once("VALUES").unwrap_or((table.write, ""));
    let width = table.columns.len();
    let row = |row: usize| {
        let places: Vec<String> = (1..=width).map(|column| format!("${}", row * width + column)).collect();
        format!("({})", places.join(", "))
    };
    format!("{into}VALUES {}", (0..MANY_ROWS).map(row).collect::<Vec<_>>().join(", ")).leak()
}

/// The tables, each after those that it refers to.
const TABLES: [Copied; 23] = [
    Copied {
        name: "meta",
        read: "SELECT name, value FROM meta ORDER BY name",
        write: "INSERT INTO meta (name, value) VALUES ($1, $2)",
        columns: &[Text, Bytes],
        numbered: None,
    },
    Copied {
        name: "operators",
        read: "SELECT id, hash, created_at, revoked_at FROM operators ORDER BY id",
        write: "INSERT INTO operators (id, hash, created_at, revoked_at) VALUES ($1, $2, $3, $4)",
        columns: &[Integer, Bytes, Integer, Integer],
        numbered: Some(Table::Operators),
    },
    Copied {
        name: "networks",
        read: "SELECT id, name, ipv4, ipv6, version, cursor, created_at, relays_version, removed_at, approval, key_life, groups_version, names, names_version FROM networks ORDER BY id",
        write: "INSERT INTO networks (id, name, ipv4, ipv6, version, cursor, created_at, relays_version, removed_at, approval, key_life, groups_version, names, names_version) \
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
        columns: &[
            Bytes, Text, Text, Text, Integer, Integer, Integer, Integer, Integer, Integer, Integer, Integer, Text,
            Integer,
        ],
        numbered: None,
    },
    Copied {
        name: "history",
        read: "SELECT network, version FROM history ORDER BY network, version",
        write: "INSERT INTO history (network, version) VALUES ($1, $2)",
        columns: &[Bytes, Integer],
        numbered: None,
    },
    Copied {
        name: "keys",
        read: "SELECT id, network, hash, reusable, expires_at, revoked_at, used, created_at, most_uses, ephemeral, tags, approves, owner \
               FROM keys ORDER BY id",
        write: "INSERT INTO keys (id, network, hash, reusable, expires_at, revoked_at, used, created_at, most_uses, ephemeral, tags, \
                approves, owner) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        columns: &[
            Integer, Bytes, Bytes, Integer, Integer, Integer, Integer, Integer, Integer, Integer, Text, Integer, Text,
        ],
        numbered: Some(Table::Keys),
    },
    Copied {
        name: "nodes",
        read: "SELECT id, network, machine_key, node_key, name, ipv4, ipv6, endpoints, program, version, created_at, last_seen_at, \
               removed_at, relays, keys_full_at, joined_key, joined_host, joined_site, owner, tags, approved, disabled, expires_at, expired, \
               key_life, ephemeral, absent, part_version, advertised, routes FROM nodes ORDER BY id",
        write: "INSERT INTO nodes (id, network, machine_key, node_key, name, ipv4, ipv6, endpoints, program, version, created_at, \
                last_seen_at, removed_at, relays, keys_full_at, joined_key, joined_host, joined_site, owner, tags, approved, disabled, expires_at, \
                expired, key_life, ephemeral, absent, part_version, advertised, routes) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, \
                $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30)",
        columns: &[
            Integer, Bytes, Bytes, Bytes, Text, Bytes, Bytes, Text, Text, Integer, Integer, Integer, Integer, Text,
            Integer, Integer, Bytes, Bytes, Text, Text, Integer, Integer, Integer, Integer, Integer, Integer, Integer,
            Integer, Text, Text,
        ],
        numbered: Some(Table::Nodes),
    },
    Copied {
        name: "relays",
        read: "SELECT id, network, name, key, endpoints, stun_port, web, created_at, busy FROM relays ORDER BY id",
        write: "INSERT INTO relays (id, network, name, key, endpoints, stun_port, web, created_at, busy) \
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        columns: &[Integer, Bytes, Text, Bytes, Text, Integer, Text, Integer, Integer],
        numbered: Some(Table::Relays),
    },
    Copied {
        name: "revocations",
        read: "SELECT id, network, node, node_key, revoked_at FROM revocations ORDER BY id",
        write: "INSERT INTO revocations (id, network, node, node_key, revoked_at) VALUES ($1, $2, $3, $4, $5)",
        columns: &[Integer, Bytes, Integer, Bytes, Integer],
        numbered: Some(Table::Revocations),
    },
    Copied {
        name: "requests",
        read: "SELECT id, code, network, machine_key, node_key, name, program, address, host, site, created_at, expires_at, denied \
               FROM requests ORDER BY id",
        write: "INSERT INTO requests (id, code, network, machine_key, node_key, name, program, address, host, site, created_at, \
                expires_at, denied) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        columns: &[Integer, Text, Bytes, Bytes, Bytes, Text, Text, Text, Bytes, Bytes, Integer, Integer, Integer],
        numbered: Some(Table::Requests),
    },
    Copied {
        name: "policies",
        read: "SELECT network, number, version, text, author, comment, created_at FROM policies ORDER BY network, number",
        write: "INSERT INTO policies (network, number, version, text, author, comment, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7)",
        columns: &[Bytes, Integer, Integer, Text, Text, Text, Integer],
        numbered: None,
    },
    Copied {
        name: "people",
        read: "SELECT id, issuer, subject, name, email, disabled_at, created_at, seen_at, checked_at, member_of, version, lapsed_at, login FROM people ORDER BY id",
        write: "INSERT INTO people (id, issuer, subject, name, email, disabled_at, created_at, seen_at, checked_at, member_of, version, lapsed_at, login) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        columns: &[Integer, Text, Text, Text, Text, Integer, Integer, Integer, Integer, Text, Integer, Integer, Text],
        numbered: Some(Table::People),
    },
    Copied {
        name: "credentials",
        read: "SELECT person, hash, changed_at FROM credentials ORDER BY person",
        write: "INSERT INTO credentials (person, hash, changed_at) VALUES ($1, $2, $3)",
        columns: &[Integer, Text, Integer],
        numbered: None,
    },
    Copied {
        name: "totp",
        read: "SELECT person, secret, confirmed_at, step FROM totp ORDER BY person",
        write: "INSERT INTO totp (person, secret, confirmed_at, step) VALUES ($1, $2, $3, $4)",
        columns: &[Integer, Bytes, Integer, Integer],
        numbered: None,
    },
    Copied {
        name: "recovery_codes",
        read: "SELECT person, hash FROM recovery_codes ORDER BY person, hash",
        write: "INSERT INTO recovery_codes (person, hash) VALUES ($1, $2)",
        columns: &[Integer, Bytes],
        numbered: None,
    },
    Copied {
        name: "roles",
        read: "SELECT person, network, role FROM roles ORDER BY person, network",
        write: "INSERT INTO roles (person, network, role) VALUES ($1, $2, $3)",
        columns: &[Integer, Bytes, Text],
        numbered: None,
    },
    Copied {
        name: "tokens",
        read: "SELECT id, hash, person, name, scopes, created_at, expires_at, revoked_at FROM tokens ORDER BY id",
        write: "INSERT INTO tokens (id, hash, person, name, scopes, created_at, expires_at, revoked_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        columns: &[Integer, Bytes, Integer, Text, Text, Integer, Integer, Integer],
        numbered: Some(Table::Tokens),
    },
    Copied {
        name: "sessions",
        read: "SELECT id, hash, person, created_at, used_at, expires_at, source FROM sessions ORDER BY id",
        write: "INSERT INTO sessions (id, hash, person, created_at, used_at, expires_at, source) VALUES ($1, $2, $3, $4, $5, $6, $7)",
        columns: &[Integer, Bytes, Integer, Integer, Integer, Integer, Text],
        numbered: Some(Table::Sessions),
    },
    Copied {
        name: "links",
        read: "SELECT id, hash, purpose, person, created_at, expires_at FROM links ORDER BY id",
        write: "INSERT INTO links (id, hash, purpose, person, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6)",
        columns: &[Integer, Bytes, Text, Integer, Integer, Integer],
        numbered: Some(Table::Links),
    },
    Copied {
        name: "audit",
        read: "SELECT id, at, actor, actor_id, actor_name, source, request, network, action, object, old_value, new_value FROM audit ORDER BY id",
        write: "INSERT INTO audit (id, at, actor, actor_id, actor_name, source, request, network, action, object, old_value, new_value) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        columns: &[Integer, Integer, Text, Integer, Text, Text, Text, Bytes, Text, Text, Text, Text],
        numbered: Some(Table::Audit),
    },
    Copied {
        name: "answers",
        read: "SELECT party, request, content, status, sealed, created_at FROM answers ORDER BY party, request",
        write: "INSERT INTO answers (party, request, content, status, sealed, created_at) VALUES ($1, $2, $3, $4, $5, $6)",
        columns: &[Bytes, Bytes, Bytes, Integer, Bytes, Integer],
        numbered: None,
    },
    Copied {
        name: "oidc_refreshes",
        read: "SELECT person, token, tried_at FROM oidc_refreshes ORDER BY person",
        write: "INSERT INTO oidc_refreshes (person, token, tried_at) VALUES ($1, $2, $3)",
        columns: &[Integer, Bytes, Integer],
        numbered: None,
    },
    Copied {
        name: "oidc_finished",
        read: "SELECT hash, expires_at FROM oidc_finished ORDER BY hash",
        write: "INSERT INTO oidc_finished (hash, expires_at) VALUES ($1, $2)",
        columns: &[Bytes, Integer],
        numbered: None,
    },
    Copied {
        name: "webhooks",
        read: "SELECT id, network, url, secret, events, created_at, disabled_at, cursor, failures, failing_since, next_try_at, last_error FROM webhooks ORDER BY id",
        write: "INSERT INTO webhooks (id, network, url, secret, events, created_at, disabled_at, cursor, failures, failing_since, next_try_at, last_error) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        columns: &[Integer, Bytes, Text, Text, Text, Integer, Integer, Integer, Integer, Integer, Integer, Text],
        numbered: Some(Table::Webhooks),
    },
];

impl Writing {
    /// Copies all rows of `from` into this transaction, whose tables are empty, and reads them again: each row must be equal, and the whole must be sound.
    /// Returns the names of the tables and the numbers of their rows.
    pub(crate) async fn copy_from(&mut self, from: &mut Reading) -> Result<Vec<(&'static str, usize)>, StoreError> {
        let mut counts = Vec::new();
        for (table, write_many) in TABLES.iter().zip(FOR_MANY.iter()) {
            let rows = from.all(table.read, &[]).await?;
            let (many, rest) = rows.as_chunks::<MANY_ROWS>();
            for rows in many {
                let rows: Vec<_> = rows.iter().map(|row| values(row, table)).collect::<Result<_, _>>()?;
                self.execute(write_many, &rows.concat()).await?;
            }
            for row in rest {
                self.execute(table.write, &values(row, table)?).await?;
            }
            if let Some(numbered) = table.numbered {
                let last = from.tx.last_number(numbered).await?;
                self.tx.set_last_number(numbered, last).await?;
            }
            let arrived = self.all(table.read, &[]).await?;
            let is_equal = rows.iter().map(|row| &row.cells).eq(arrived.iter().map(|row| &row.cells));
            if !is_equal {
                return Err(StoreError::Damaged("a row that was copied is another one in the new database"));
            }
            counts.push((table.name, rows.len()));
        }
        match violations(self.tx.as_mut(), true).await?.is_empty() {
            true => Ok(counts),
            false => {
                Err(StoreError::Damaged("the copy breaks a rule of the tables; `taut-coordinator check` names it"))
            }
        }
    }
}

/// Returns a row as values for a statement. Damaged text (invalid UTF-8) is an error: the operator repairs it first.
fn values<'a>(row: &'a Row, table: &Copied) -> Result<Vec<Value<'a>>, StoreError> {
    let value = |(cell, kind): (&'a Cell, &Kind)| match (cell, kind) {
        (Cell::Null, Integer) => Some(Value::Integer(None)),
        (Cell::Null, Text) => Some(Value::Text(None)),
        (Cell::Null, Bytes) => Some(Value::Bytes(None)),
        (Cell::Integer(number), Integer) => Some(Value::Integer(Some(*number))),
        (Cell::Bytes(bytes), Bytes) => Some(Value::Bytes(Some(bytes))),
        (Cell::Bytes(bytes), Text) => str::from_utf8(bytes).ok().map(|text| Value::Text(Some(text))),
        _ => None,
    };
    let values: Option<Vec<_>> = row.cells.iter().zip(table.columns).map(value).collect();
    let what = "a value of another type, or a text that is none";
    values.ok_or_else(|| StoreError::DamagedRow(DamagedRow { table: table.name, key: key(row), what }))
}

#[cfg(test)]
impl Reading {
    /// Returns all rows of all tables, and the last numbers, for tests that compare databases.
    pub(crate) async fn dump(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        for table in &TABLES {
            let rows = self.all(table.read, &[]).await.unwrap();
            all.extend(rows.iter().map(|row| format!("{} {:?}", table.name, row.cells)));
            if let Some(numbered) = table.numbered {
                all.push(format!("{} {}", table.name, self.tx.last_number(numbered).await.unwrap()));
            }
        }
        all
    }
}
