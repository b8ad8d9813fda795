-- log.db: the event log. Appends are synced before they return; a partition is written `mentions.celebrity/3`.

CREATE TABLE records (
    partition   TEXT    NOT NULL,
    offset      INTEGER NOT NULL,
    key         TEXT    NOT NULL,
    value       BLOB    NOT NULL,
    appended_at INTEGER NOT NULL,
    PRIMARY KEY (partition, offset)
) WITHOUT ROWID;

-- The offset that the partition's next record gets: kept apart, so that it rises on when old records are dropped.
CREATE TABLE ends (
    partition   TEXT    NOT NULL PRIMARY KEY,
    next_offset INTEGER NOT NULL
) WITHOUT ROWID;

-- The last offset that the group has done for ever.
CREATE TABLE commits (
    consumer_group TEXT    NOT NULL,
    partition      TEXT    NOT NULL,
    offset         INTEGER NOT NULL,
    PRIMARY KEY (consumer_group, partition)
) WITHOUT ROWID;

-- Who reads in the group now: the partitions are shared out among those whose time has not passed.
CREATE TABLE consumers (
    consumer_group TEXT    NOT NULL,
    stream         TEXT    NOT NULL,
    owner          TEXT    NOT NULL,
    until          INTEGER NOT NULL,
    PRIMARY KEY (consumer_group, stream, owner)
) WITHOUT ROWID;

-- A partition's one reader in the group; the epoch rises with every change of hands, and fences the one before.
CREATE TABLE holds (
    consumer_group TEXT    NOT NULL,
    partition      TEXT    NOT NULL,
    owner          TEXT    NOT NULL,
    epoch          INTEGER NOT NULL,
    until          INTEGER NOT NULL,
    PRIMARY KEY (consumer_group, partition)
) WITHOUT ROWID;
