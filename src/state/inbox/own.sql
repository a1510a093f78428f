-- Version 4. The pull request that an event is of, where it belongs to the session
-- of another item.
ALTER TABLE deliveries ADD COLUMN own TEXT;
CREATE INDEX deliveries_by_own ON deliveries (own, seq) WHERE own IS NOT NULL;
