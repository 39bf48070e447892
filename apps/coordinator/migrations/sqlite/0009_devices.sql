-- Devices: approval, owner, tags, expiry, ephemeral nodes, requests to join (docs/internals/devices.md).

-- 1 if a new node waits until an operator approves it; its enrolment key may do that in advance.
ALTER TABLE networks ADD COLUMN approval INTEGER NOT NULL DEFAULT 0 CHECK (approval IN (0, 1));
-- Seconds for which a membership lasts before its node must be approved again; NULL for ever. A node may have its own.
ALTER TABLE networks ADD COLUMN key_life INTEGER;

-- Number of nodes that may join with the key; NULL for any number.
ALTER TABLE keys ADD COLUMN most_uses INTEGER;
-- Nodes that join with the key are removed after this number of seconds of absence; NULL for never.
ALTER TABLE keys ADD COLUMN ephemeral INTEGER;
-- Tags of nodes that join with the key, as JSON.
ALTER TABLE keys ADD COLUMN tags TEXT NOT NULL DEFAULT '[]';
-- 1 if nodes that join with the key need no further approval.
ALTER TABLE keys ADD COLUMN approves INTEGER NOT NULL DEFAULT 0 CHECK (approves IN (0, 1));
-- Owner of nodes that join with the key; NULL for none.
ALTER TABLE keys ADD COLUMN owner TEXT;

-- The person that a node belongs to; NULL for none.
ALTER TABLE nodes ADD COLUMN owner TEXT;
-- Its tags, as JSON.
ALTER TABLE nodes ADD COLUMN tags TEXT NOT NULL DEFAULT '[]';
-- 0 while the node waits for its approval.
ALTER TABLE nodes ADD COLUMN approved INTEGER NOT NULL DEFAULT 1 CHECK (approved IN (0, 1));
-- 1 while an operator keeps the node out of the network.
ALTER TABLE nodes ADD COLUMN disabled INTEGER NOT NULL DEFAULT 0 CHECK (disabled IN (0, 1));
-- When its membership expires; NULL for never.
ALTER TABLE nodes ADD COLUMN expires_at INTEGER;
-- 1 once the coordinator has ended the membership. It is stored, so that coordinators whose clocks differ agree about it.
ALTER TABLE nodes ADD COLUMN expired INTEGER NOT NULL DEFAULT 0 CHECK (expired IN (0, 1));
-- Its own life of a membership, in seconds; 0 for ever; NULL for that of the network.
ALTER TABLE nodes ADD COLUMN key_life INTEGER;
-- The node is removed after this number of seconds of absence; NULL for never.
ALTER TABLE nodes ADD COLUMN ephemeral INTEGER;
-- Seconds of absence that were counted while a coordinator was up; NULL if the node was present at the last count, or was not counted yet.
ALTER TABLE nodes ADD COLUMN absent INTEGER;
-- The network's version at which the node last came to take part, or ceased to: a node with an older map gets a whole one.
ALTER TABLE nodes ADD COLUMN part_version INTEGER NOT NULL DEFAULT 0;

-- Nodes whose absence is counted, and nodes whose membership expires.
CREATE INDEX nodes_ephemeral ON nodes (ephemeral) WHERE ephemeral IS NOT NULL AND removed_at IS NULL;
CREATE INDEX nodes_expiry ON nodes (expires_at) WHERE expires_at IS NOT NULL AND expired = 0 AND removed_at IS NULL;

-- Machines that ask to join, or to be approved again, without an enrolment key: `taut up` without a token. A row lasts for minutes.
CREATE TABLE requests (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    -- What the person types who approves it.
    code        TEXT NOT NULL UNIQUE,
    -- The network of the member that asks to be approved again; NULL for a machine that is no member.
    network     BLOB,
    machine_key BLOB NOT NULL UNIQUE CHECK (length(machine_key) = 32),
    node_key    BLOB NOT NULL CHECK (length(node_key) = 32),
    -- The name and the program version that the machine reports.
    name        TEXT NOT NULL,
    program     TEXT NOT NULL,
    -- The address that it asks from, in words, and in the two forms of `joined_host` and `joined_site`.
    address     TEXT NOT NULL,
    host        BLOB NOT NULL CHECK (length(host) = 8),
    site        BLOB NOT NULL CHECK (length(site) = 8),
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    -- 1 if it was denied: the machine is told, and does not ask again at once.
    denied      INTEGER NOT NULL DEFAULT 0 CHECK (denied IN (0, 1))
) STRICT;

CREATE INDEX requests_site ON requests (site, host);
