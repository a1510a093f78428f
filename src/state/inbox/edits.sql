-- Version 6. Who edited or armed the title and the body of an item, as deliveries
-- told: of each person the last time.
CREATE TABLE edits (
    slug      TEXT NOT NULL,
    field     TEXT NOT NULL,                       -- title, body
    login     TEXT NOT NULL,
    armed     INTEGER NOT NULL,                    -- taken as it is, not edited
    by_author INTEGER NOT NULL,                    -- by who opened the item
    at        INTEGER NOT NULL,                    -- by GitHub's clock
    seen      INTEGER NOT NULL,                    -- by ours
    PRIMARY KEY (slug, field, login, armed)
) STRICT, WITHOUT ROWID;
CREATE INDEX edits_by_time ON edits (seen) WHERE by_author;
