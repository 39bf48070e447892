-- People who sign in, and what they may do (docs/internals/people.md). A person is (issuer, subject): the issuer is `local`, or the URL of an OpenID provider. The email
-- address is only shown.
-- AUTOINCREMENT: a number is never given twice.
CREATE TABLE people (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    issuer      TEXT NOT NULL,
    subject     TEXT NOT NULL,
    name        TEXT NOT NULL,
    email       TEXT,
    disabled_at INTEGER,
    created_at  INTEGER NOT NULL,
    -- The last time that the person signed in.
    seen_at     INTEGER,
    -- The last time that an OpenID provider confirmed the person.
    checked_at  INTEGER,
    -- Groups of the provider, as JSON.
    member_of   TEXT NOT NULL DEFAULT '[]',
    -- Counts the changes of this person and its roles.
    version     INTEGER NOT NULL DEFAULT 1,
    UNIQUE (issuer, subject)
) STRICT;

-- Passwords of local people, as hashes of Argon2id in the PHC form. A person without a row cannot sign in with a password.
CREATE TABLE credentials (
    person     INTEGER PRIMARY KEY REFERENCES people (id),
    hash       TEXT NOT NULL,
    changed_at INTEGER NOT NULL
) STRICT;

-- Secrets of one-time codes (RFC 6238). Codes of a step up to `step` were used.
CREATE TABLE totp (
    person       INTEGER PRIMARY KEY REFERENCES people (id),
    secret       BLOB NOT NULL CHECK (length(secret) = 20),
    -- NULL until the person has entered a code.
    confirmed_at INTEGER,
    step         INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Codes that replace one-time codes once each, by their hash only.
CREATE TABLE recovery_codes (
    person INTEGER NOT NULL REFERENCES people (id),
    hash   BLOB NOT NULL CHECK (length(hash) = 32),
    PRIMARY KEY (person, hash)
) STRICT;

-- The role of a person in a network; in all networks and in the coordinator itself if the network is empty.
CREATE TABLE roles (
    person  INTEGER NOT NULL REFERENCES people (id),
    network BLOB NOT NULL CHECK (length(network) IN (0, 16)),
    role    TEXT NOT NULL CHECK (role IN ('owner', 'admin', 'auditor', 'member')),
    PRIMARY KEY (person, network)
) STRICT;

-- API tokens, by their hash only. One without a person belongs to the operator. They are not in `operators`, because an earlier release beside this one would take
-- each of them for a token without limits.
CREATE TABLE tokens (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    hash       BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    person     INTEGER REFERENCES people (id),
    name       TEXT NOT NULL,
    -- Separated by spaces.
    scopes     TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT;

CREATE INDEX tokens_person ON tokens (person);

-- Sessions of browsers and commands, by the hash of their secret only.
CREATE TABLE sessions (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    hash       BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    person     INTEGER NOT NULL REFERENCES people (id),
    created_at INTEGER NOT NULL,
    used_at    INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    -- Address of the client that signed in.
    source     TEXT NOT NULL
) STRICT;

CREATE INDEX sessions_person ON sessions (person);

-- Links that work once, by the hash of their secret only: the first owner sets the coordinator up, a person sets a new password.
CREATE TABLE links (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    hash       BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    purpose    TEXT NOT NULL CHECK (purpose IN ('set-up', 'password')),
    person     INTEGER REFERENCES people (id),
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;

-- Every change, in the transaction that makes it, and failed sign-ins by minute and source.
CREATE TABLE audit (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    at         INTEGER NOT NULL,
    -- `person`, `token`, `operator-token`, `command`, `coordinator` or `nobody`.
    actor      TEXT NOT NULL,
    actor_id   INTEGER,
    actor_name TEXT NOT NULL,
    source     TEXT NOT NULL,
    request    TEXT NOT NULL,
    -- NULL for a change that belongs to no network. It outlives the network.
    network    BLOB,
    action     TEXT NOT NULL,
    object     TEXT NOT NULL,
    -- JSON.
    old_value  TEXT,
    new_value  TEXT
) STRICT;

-- Finds entries by their age.
CREATE INDEX audit_age ON audit (at);

-- Answers to creations with an idempotency key, sealed with a key that only the client has.
CREATE TABLE answers (
    party      BLOB NOT NULL CHECK (length(party) = 32),
    request    BLOB NOT NULL CHECK (length(request) = 32),
    -- Hash of method, path and body.
    content    BLOB NOT NULL CHECK (length(content) = 32),
    -- NULL while the request is carried out.
    status     INTEGER,
    sealed     BLOB,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (party, request)
) STRICT;
