-- Version 1. Times are milliseconds since 1970, UTC.
CREATE TABLE deliveries (
    seq         INTEGER PRIMARY KEY,               -- order of arrival
    id          TEXT NOT NULL UNIQUE,
    kind        TEXT NOT NULL,                     -- github, local
    event       TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    state       TEXT NOT NULL,
    reason      TEXT NOT NULL,
    changed_at  INTEGER NOT NULL,
    attempts    INTEGER NOT NULL DEFAULT 0,        -- how often typing was begun
    item        TEXT,                              -- what the event is about
    slug        TEXT,
    url         TEXT
) STRICT;
CREATE INDEX deliveries_by_state ON deliveries (state, seq);
CREATE INDEX deliveries_by_slug ON deliveries (slug, seq) WHERE slug IS NOT NULL;
CREATE INDEX deliveries_by_url ON deliveries (url, seq) WHERE url IS NOT NULL;
CREATE INDEX deliveries_pings ON deliveries (seq) WHERE event = 'ping';

-- Apart from the rest, so that lists are read without them and they can be
-- dropped before the outcomes.
CREATE TABLE bodies (
    seq  INTEGER PRIMARY KEY,
    body BLOB NOT NULL
) STRICT;

-- Where a delivery goes: stored, so that a restart does not decide again.
CREATE TABLE routes (
    seq    INTEGER PRIMARY KEY,
    item   TEXT NOT NULL,
    slug   TEXT NOT NULL,
    marker TEXT NOT NULL,
    prompt TEXT NOT NULL,
    start  INTEGER NOT NULL,
    action TEXT NOT NULL                           -- deliver, close
) STRICT;
CREATE INDEX routes_by_slug ON routes (slug, seq);

-- The event log: only ever appended to.
CREATE TABLE steps (
    seq    INTEGER NOT NULL,
    step   INTEGER NOT NULL,                       -- 1, 2, … of its delivery
    at     INTEGER NOT NULL,
    state  TEXT NOT NULL,
    reason TEXT NOT NULL,
    detail TEXT,
    PRIMARY KEY (seq, step)
) STRICT, WITHOUT ROWID;
