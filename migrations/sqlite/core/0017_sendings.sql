-- core.db: what was sent to phones, window by window: written before it is sent (`intent`), and what was missed of it after
-- (`outcome`; NULL while it is on its way, and after a crash). `at` is when it was written, in milliseconds since 1970; rows go
-- eight days after, as the next are written. The table before knew neither windows nor providers, and what it says is of alerts
-- whose time is over.
DROP TABLE sent;

CREATE TABLE sendings (
    subject  TEXT    NOT NULL,
    seq      INTEGER NOT NULL,
    shard    INTEGER NOT NULL,
    platform TEXT    NOT NULL,
    tier     TEXT    NOT NULL,
    n        INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    intent   BLOB    NOT NULL,
    outcome  BLOB,
    PRIMARY KEY (subject, seq, shard, platform, tier, n)
) WITHOUT ROWID;

CREATE INDEX sendings_by_moment ON sendings (at);

-- Of rows that ended: how many of their people may be alerted; NULL where nobody looked, and in all facts of before.
ALTER TABLE slices ADD COLUMN phones INTEGER;
