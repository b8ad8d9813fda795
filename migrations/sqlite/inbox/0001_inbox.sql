-- inbox-NN.db: rows and seals of the shards with shard % 8 = NN. A shard's seal and its rows share a file, so that
-- after a power cut rows never stand without the seal they were written from: the write-ahead log keeps their order.
-- Times are milliseconds since 1970.

-- A member's own row (slot 0 to 1023, no bitmap) or a block row (slot 1024). Read from the end: newest first.
CREATE TABLE inbox (
    block        INTEGER NOT NULL,
    inbox_window INTEGER NOT NULL,
    slot         INTEGER NOT NULL,
    opened_at    INTEGER NOT NULL,
    subject      TEXT    NOT NULL,
    seq          INTEGER NOT NULL,
    tier         TEXT    NOT NULL,
    members      BLOB,
    PRIMARY KEY (block, inbox_window, slot, opened_at, subject, seq, tier)
) WITHOUT ROWID;

CREATE TABLE seals (
    subject   TEXT    NOT NULL,
    seq       INTEGER NOT NULL,
    shard     INTEGER NOT NULL,
    blob      BLOB    NOT NULL,
    sealed_at INTEGER NOT NULL,
    PRIMARY KEY (subject, seq, shard)
) WITHOUT ROWID;

CREATE INDEX seals_by_time ON seals (sealed_at);
