-- core.db: what operators set and look at, and who leads. Times are milliseconds since 1970.

-- A rate of NULL is a pause.
CREATE TABLE throttles (
    id        TEXT    NOT NULL PRIMARY KEY,
    tier      TEXT    NOT NULL,
    rate      REAL,
    reason    TEXT    NOT NULL,
    who       TEXT    NOT NULL,
    starts_at INTEGER NOT NULL,
    ends_at   INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX throttles_by_end ON throttles (ends_at);

-- Append-only; each hash is SHA-256 over the hash before it and the row's body, so that no row can be changed unseen.
CREATE TABLE audit (
    number INTEGER PRIMARY KEY,
    hash   BLOB NOT NULL,
    body   BLOB NOT NULL
);

CREATE TABLE dead_letters (
    id    TEXT    NOT NULL PRIMARY KEY,
    stage TEXT    NOT NULL,
    cause TEXT    NOT NULL,
    body  BLOB    NOT NULL,
    at    INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX dead_letters_by_time ON dead_letters (at);

CREATE TABLE leases (
    name  TEXT    NOT NULL PRIMARY KEY,
    owner TEXT    NOT NULL,
    until INTEGER NOT NULL
) WITHOUT ROWID;
