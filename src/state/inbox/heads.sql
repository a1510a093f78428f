-- Version 2. Which pull requests a commit is the head of, as deliveries told: a
-- check that names no pull request belongs to these.
CREATE TABLE heads (
    sha    TEXT NOT NULL,
    pr     TEXT NOT NULL,
    branch TEXT NOT NULL,
    own    INTEGER NOT NULL,                       -- in the pull request's repository
    at     INTEGER NOT NULL,
    PRIMARY KEY (sha, pr)
) STRICT, WITHOUT ROWID;
CREATE INDEX heads_by_time ON heads (at);
CREATE INDEX deliveries_by_time ON deliveries (received_at);
