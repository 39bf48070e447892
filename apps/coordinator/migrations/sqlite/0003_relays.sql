-- Relays of a network; every map holds all of them. The coordinator's own relay has no row: it follows from how `serve` was started,
-- and stands in `meta` under `own-relay` (as JSON), so that a start that changes it is a change of every network.
-- AUTOINCREMENT: a number is never given twice; 0 is the coordinator's own.
CREATE TABLE relays (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    network    BLOB NOT NULL REFERENCES networks (id),
    name       TEXT NOT NULL,
    -- The relay's Noise static key (X25519).
    key        BLOB NOT NULL CHECK (length(key) = 32),
    endpoints  TEXT NOT NULL,
    stun_port  INTEGER NOT NULL CHECK (stun_port BETWEEN 0 AND 65535),
    web        TEXT,
    created_at INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX relays_name ON relays (network, name);
CREATE UNIQUE INDEX relays_key ON relays (network, key);

-- The network's version at which its relays, or the coordinator's own, changed last.
ALTER TABLE networks ADD COLUMN relays_version INTEGER NOT NULL DEFAULT 0;
-- Numbers of the relays that a node is bound to, as it says.
ALTER TABLE nodes ADD COLUMN relays TEXT NOT NULL DEFAULT '[]';
