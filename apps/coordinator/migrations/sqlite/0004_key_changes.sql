-- When a member may change its WireGuard key as often as at first again (seconds since 1970): a token bucket as one moment, kept here so that
-- a restart of the coordinator gives nothing back. src/state/key_changes.rs has the rule.
ALTER TABLE nodes ADD COLUMN keys_full_at INTEGER NOT NULL DEFAULT 0;
