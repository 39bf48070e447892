-- Policies: who may reach what (docs/policy.md). The one with the largest number is in force.

CREATE TABLE policies (
    network    BYTEA NOT NULL REFERENCES networks (id),
    -- Number of the version, from 1 on.
    number     BIGINT NOT NULL CHECK (number > 0),
    -- The network's version since which it is in force.
    version    BIGINT NOT NULL,
    -- The policy, as its author wrote it.
    text       TEXT NOT NULL,
    -- Who applied it, and why.
    author     TEXT NOT NULL,
    comment    TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (network, number)
);

-- In a network of an earlier release everybody reaches everybody, and that stays so until somebody applies another policy.
INSERT INTO policies (network, number, version, text, author, comment, created_at)
SELECT id, 1, 0, '{"acls": [{"action": "accept", "src": ["*"], "dst": ["*:*"]}]}', 'upgrade',
       'as before policies existed: everybody reaches everybody', created_at
FROM networks WHERE removed_at IS NULL;
