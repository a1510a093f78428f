-- Version 5. How long a body is that is stored packed (one LZ4 block); NULL where
-- it is stored as it came.
ALTER TABLE bodies ADD COLUMN size INTEGER;
