-- Members that were removed, and former keys of members, in the order of their commits: relays are told of them (src/state/revocations.rs). A row lasts as long
-- as a mark of a removed node, which is longer than any ticket.
-- AUTOINCREMENT: a number is never given twice.
CREATE TABLE revocations (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    network    BLOB NOT NULL REFERENCES networks (id),
    -- NULL if the node remains a member and only its former key is revoked.
    node       INTEGER,
    node_key   BLOB NOT NULL CHECK (length(node_key) = 32),
    revoked_at INTEGER NOT NULL
) STRICT;

CREATE INDEX revocations_network ON revocations (network, id);
CREATE INDEX revocations_key ON revocations (node_key);
-- Finds rows by their age.
CREATE INDEX revocations_age ON revocations (revoked_at);

INSERT INTO revocations (network, node, node_key, revoked_at)
SELECT network, id, node_key, removed_at FROM nodes WHERE removed_at IS NOT NULL ORDER BY id;

-- 1 while a relay says that it can hardly take more nodes; nodes that are not bound to it prefer others.
ALTER TABLE relays ADD COLUMN busy INTEGER NOT NULL DEFAULT 0 CHECK (busy IN (0, 1));
