-- core.db: who is in which set of the active, until which hour since 1970; ordered as the roll-up reads, a shard after the
-- other. Two writers of a row: the later stamp stands, and what was loaded has none.

CREATE TABLE stays (
    kind  TEXT    NOT NULL,
    shard INTEGER NOT NULL,
    until INTEGER NOT NULL,
    blob  BLOB    NOT NULL,
    stamp INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (kind, shard, until)
) WITHOUT ROWID;

-- What was loaded before there were stays has no time, so it never ends: else the first roll-up would make all of them idle.
INSERT INTO stays (kind, shard, until, blob)
SELECT kind, shard, 2147483647, blob FROM member_sets WHERE owner = '' AND kind IN ('active24h', 'active7d', 'active30d');
