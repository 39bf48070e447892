-- People of an OpenID provider (docs/internals/people.md).
-- Since when the provider does not confirm the person any more; NULL while it does. Unlike `disabled_at`, another sign-in ends it.
ALTER TABLE people ADD COLUMN lapsed_at BIGINT;
-- The login, by which owners of nodes and policies name the person: the email address in lower case if the provider has confirmed it, otherwise NULL.
ALTER TABLE people ADD COLUMN login TEXT;
CREATE INDEX people_login ON people (login) WHERE login IS NOT NULL;

-- The network's version at which groups of its nodes' owners last changed.
ALTER TABLE networks ADD COLUMN groups_version BIGINT NOT NULL DEFAULT 0;

-- Refresh tokens, with which the provider is asked whether it still knows a person. Sealed with a key that is derived from the client secret, which is not in the database.
CREATE TABLE oidc_refreshes (
    person   BIGINT PRIMARY KEY REFERENCES people (id),
    token    BYTEA NOT NULL,
    -- Changes with every attempt: of several coordinators one makes it.
    tried_at BIGINT NOT NULL
);

-- Sign-ins at the provider that were finished, by the hash of their state: each works once. Kept until the sign-in would have expired.
CREATE TABLE oidc_finished (
    hash       BYTEA PRIMARY KEY CHECK (length(hash) = 32),
    expires_at BIGINT NOT NULL
);
