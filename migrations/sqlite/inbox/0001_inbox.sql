-- inbox-NN.db: rows and seals of the shards with shard % 8 = NN. A shard's seal and its rows share a file, so that
-- after a power cut rows never stand without the seal they were written from: the write-ahead log keeps their order.
-- Times are milliseconds since 1970.

-- A row stands for everybody of a range of 4,096 members whom a tier of a burst reaches. `members` is a bitmap of 512
-- bytes, the lowest member in the lowest bit, or a shorter list of places in the range, two bytes each, low byte first.
-- Read by the subjects that a reader follows, from the end: newest first.
CREATE TABLE inbox (
    member_range INTEGER NOT NULL,
    inbox_window INTEGER NOT NULL,
    subject      TEXT    NOT NULL,
    opened_at    INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
    tier         TEXT    NOT NULL,
    members      BLOB    NOT NULL,
    PRIMARY KEY (member_range, inbox_window, subject, opened_at, seq, tier)
) WITHOUT ROWID;

-- The facts stand before the bitmaps, so that they are read without them.
CREATE TABLE seals (
    subject   TEXT    NOT NULL,
    seq       INTEGER NOT NULL,
    shard     INTEGER NOT NULL,
    facts     BLOB    NOT NULL,
    blob      BLOB    NOT NULL,
    sealed_at INTEGER NOT NULL,
    PRIMARY KEY (subject, seq, shard)
) WITHOUT ROWID;

CREATE INDEX seals_by_time ON seals (sealed_at);
