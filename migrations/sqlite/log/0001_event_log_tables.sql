-- log.db: the event log, with the offsets and leases of its consumer groups. An append is synced to disk before it
-- returns. A partition is written `mentions.celebrity/3`; times are milliseconds since 1970.

-- Records of the streams, by partition and offset.
CREATE TABLE records (
    partition   TEXT    NOT NULL,
    offset      INTEGER NOT NULL,
    key         TEXT    NOT NULL,
    value       BLOB    NOT NULL,
    appended_at INTEGER NOT NULL,
    PRIMARY KEY (partition, offset)
) WITHOUT ROWID;

-- The next offset of each partition. The row outlives the records, so that no offset is used again.
CREATE TABLE next_offsets (
    partition   TEXT    NOT NULL PRIMARY KEY,
    next_offset INTEGER NOT NULL
) WITHOUT ROWID;

-- The last offset that each group has committed.
CREATE TABLE committed_offsets (
    consumer_group TEXT    NOT NULL,
    partition      TEXT    NOT NULL,
    offset         INTEGER NOT NULL,
    PRIMARY KEY (consumer_group, partition)
) WITHOUT ROWID;

-- Consumers of each group; the partitions are divided among those whose `until` has not passed.
CREATE TABLE consumers (
    consumer_group TEXT    NOT NULL,
    stream         TEXT    NOT NULL,
    owner          TEXT    NOT NULL,
    until          INTEGER NOT NULL,
    PRIMARY KEY (consumer_group, stream, owner)
) WITHOUT ROWID;

-- Leases of partitions: at most one consumer of a group owns a partition. `epoch` grows when a consumer takes the
-- partition, and fences the previous owner.
CREATE TABLE partition_leases (
    consumer_group TEXT    NOT NULL,
    partition      TEXT    NOT NULL,
    owner          TEXT    NOT NULL,
    epoch          INTEGER NOT NULL,
    until          INTEGER NOT NULL,
    PRIMARY KEY (consumer_group, partition)
) WITHOUT ROWID;
