-- The truth of the coordinator. Migrations are append-only: what was released is never edited, a change is a new file.
-- Times are seconds since 1970. Versions are explained in src/store/networks.rs.

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT;

-- Tokens of operators, by their hash only.
CREATE TABLE operators (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    hash       BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE networks (
    id          BLOB PRIMARY KEY CHECK (length(id) = 16),
    name        TEXT NOT NULL UNIQUE,
    ipv4        TEXT NOT NULL,
    ipv6        TEXT NOT NULL UNIQUE,
    version     INTEGER NOT NULL,
    -- Host number of the IPv4 address that was handed out last.
    cursor      INTEGER NOT NULL DEFAULT 0,
    created_at  INTEGER NOT NULL
) STRICT;

-- Versions that a network has had: a node may resume from these and from no other.
CREATE TABLE history (
    network BLOB NOT NULL REFERENCES networks (id),
    version INTEGER NOT NULL,
    PRIMARY KEY (network, version)
) STRICT, WITHOUT ROWID;

-- Enrolment keys, by the hash of their secret only.
CREATE TABLE keys (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    network    BLOB NOT NULL REFERENCES networks (id),
    hash       BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    reusable   INTEGER NOT NULL CHECK (reusable IN (0, 1)),
    expires_at INTEGER,
    revoked_at INTEGER,
    used       INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL
) STRICT;

-- Members, and for a while those who were: a removed node stays as a mark, so that the others can be told.
-- AUTOINCREMENT: a number is never given twice, not even after the row is gone.
CREATE TABLE nodes (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    network      BLOB NOT NULL REFERENCES networks (id),
    machine_key  BLOB NOT NULL CHECK (length(machine_key) = 32),
    node_key     BLOB NOT NULL CHECK (length(node_key) = 32),
    name         TEXT NOT NULL,
    ipv4         BLOB NOT NULL CHECK (length(ipv4) = 4),
    ipv6         BLOB NOT NULL CHECK (length(ipv6) = 16),
    endpoints    TEXT NOT NULL DEFAULT '[]',
    program      TEXT NOT NULL DEFAULT '',
    -- The network's version at which this row changed last.
    version      INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    last_seen_at INTEGER NOT NULL,
    removed_at   INTEGER
) STRICT;

CREATE UNIQUE INDEX nodes_machine ON nodes (network, machine_key) WHERE removed_at IS NULL;
CREATE UNIQUE INDEX nodes_node_key ON nodes (node_key, network) WHERE removed_at IS NULL;
CREATE UNIQUE INDEX nodes_name ON nodes (network, name) WHERE removed_at IS NULL;
CREATE UNIQUE INDEX nodes_ipv4 ON nodes (network, ipv4) WHERE removed_at IS NULL;
CREATE UNIQUE INDEX nodes_ipv6 ON nodes (ipv6) WHERE removed_at IS NULL;
-- What changed since a version.
CREATE INDEX nodes_version ON nodes (network, version);
