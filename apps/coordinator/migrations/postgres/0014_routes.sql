-- Subnet routes (docs/internals/routes.md): prefixes behind a node, as JSON.

-- Those that the node advertises.
ALTER TABLE nodes ADD COLUMN advertised TEXT NOT NULL DEFAULT '[]';
-- Those that may be used when the node advertises them: an operator or the policy approved them.
ALTER TABLE nodes ADD COLUMN routes TEXT NOT NULL DEFAULT '[]';
