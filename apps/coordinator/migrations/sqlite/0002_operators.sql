-- When an operator's token was revoked; NULL while it opens the API. The row stays, so that a list can say that it once did.
ALTER TABLE operators ADD COLUMN revoked_at INTEGER;
