-- Names that an operator chooses for a network (docs/internals/names.md).

-- Its base domain, its records, and the domains of other servers, as JSON.
ALTER TABLE networks ADD COLUMN names TEXT NOT NULL DEFAULT '{}';
-- Version at which they last changed.
ALTER TABLE networks ADD COLUMN names_version INTEGER NOT NULL DEFAULT 0;
