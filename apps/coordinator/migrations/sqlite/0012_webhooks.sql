-- Webhooks: URLs to which entries of the audit log are sent (docs/webhooks.md). The log itself is the queue.
CREATE TABLE webhooks (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    -- NULL for the entries of all networks and of the coordinator itself.
    network       BLOB,
    url           TEXT NOT NULL,
    -- Key of the signatures. It has to be readable, as that of one-time codes.
    secret        TEXT NOT NULL,
    -- JSON: a list of actions, or of `*`.
    events        TEXT NOT NULL,
    created_at    INTEGER NOT NULL,
    disabled_at   INTEGER,
    -- Number of the last entry that was delivered, or that the webhook does not want.
    cursor        INTEGER NOT NULL,
    -- Failures since the last delivery, and the time of the first of them.
    failures      INTEGER NOT NULL DEFAULT 0,
    failing_since INTEGER,
    -- No attempt is made earlier. While a coordinator makes one, this is the end of its claim.
    next_try_at   INTEGER NOT NULL,
    last_error    TEXT
) STRICT;

-- Finds the webhooks of a network.
CREATE INDEX webhooks_network ON webhooks (network);
