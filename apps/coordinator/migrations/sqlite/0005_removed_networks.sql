-- When a network was removed; NULL while it exists. The row stays for a while as a mark, with the marks of its nodes: members that were away are
-- told that they are none, and the coordinator's own relay refuses them after a restart, too, while their tickets last. A mark's name is no label,
-- so that its former name is free.
ALTER TABLE networks ADD COLUMN removed_at INTEGER;
