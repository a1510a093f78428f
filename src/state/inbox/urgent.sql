-- Version 3. Whether a delivery waits for no turn's end and goes before others.
ALTER TABLE routes ADD COLUMN now INTEGER NOT NULL DEFAULT 0;
