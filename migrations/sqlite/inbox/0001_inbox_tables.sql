-- inbox-NN.db: inbox rows and audience snapshots of the shards with shard % 8 = NN. Times are milliseconds
-- since 1970. A shard's snapshot and its rows share a file: a power cut that undoes a snapshot also undoes the rows
-- that were written from it.

-- Inbox rows. A row is for all members of a range of 4,096 whom a tier of a burst reaches. `members` is a bitmap of 512
-- bytes (lowest member in the lowest bit), or a shorter list of offsets in the range, two bytes each, low byte first.
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

-- Audience snapshots, one for each shard of a burst. `facts` (counts) stands before `blob` (bitmaps), so that SQLite
-- can read the facts without the bitmaps.
CREATE TABLE audience_snapshots (
    subject  TEXT    NOT NULL,
    seq      INTEGER NOT NULL,
    shard    INTEGER NOT NULL,
    facts    BLOB    NOT NULL,
    blob     BLOB    NOT NULL,
    taken_at INTEGER NOT NULL,
    PRIMARY KEY (subject, seq, shard)
) WITHOUT ROWID;

CREATE INDEX audience_snapshots_by_time ON audience_snapshots (taken_at);
