-- By which enrolment key a node joined, and from where: its address and the prefix of that, 8 bytes each (`taut_base::network` and `site`). NULL for nodes
-- that joined before there were these columns. src/state/joins.rs has the limits that count marks of removed nodes by them.
ALTER TABLE nodes ADD COLUMN joined_key INTEGER;
ALTER TABLE nodes ADD COLUMN joined_host BLOB;
ALTER TABLE nodes ADD COLUMN joined_site BLOB;

-- Counts marks without reading their rows.
CREATE INDEX nodes_marks ON nodes (joined_key, removed_at, joined_host, joined_site) WHERE removed_at IS NOT NULL;
-- Finds marks by their age.
CREATE INDEX nodes_removed ON nodes (removed_at) WHERE removed_at IS NOT NULL;
