-- core.db: people, their numbers, and what decides what they see. Times are milliseconds since 1970.
-- A subject is written `mention:nova`; `account` and `blob` columns hold what notifier.codec packs.

CREATE TABLE user_ranges (
    prefix   TEXT    NOT NULL,
    first_id INTEGER NOT NULL,
    count    INTEGER NOT NULL,
    member   INTEGER NOT NULL,
    PRIMARY KEY (prefix, first_id)
) WITHOUT ROWID;

CREATE INDEX user_ranges_by_member ON user_ranges (member);

CREATE TABLE users (
    user    TEXT    NOT NULL PRIMARY KEY,
    member  INTEGER NOT NULL,
    account BLOB    NOT NULL
) WITHOUT ROWID;

CREATE TABLE members (
    member INTEGER PRIMARY KEY,
    user   TEXT NOT NULL
);

-- Ordered so that all sets of one owner in one shard are neighbours: sealing reads exactly them.
-- The owner is a subject, and '' for the sets of everybody.
CREATE TABLE member_sets (
    owner TEXT    NOT NULL,
    shard INTEGER NOT NULL,
    kind  TEXT    NOT NULL,
    blob  BLOB    NOT NULL,
    PRIMARY KEY (owner, shard, kind)
) WITHOUT ROWID;

-- Counts are one unsigned 32-bit little-endian number for each shard.
CREATE TABLE set_heads (
    subject TEXT    NOT NULL PRIMARY KEY,
    total   INTEGER NOT NULL,
    counts  BLOB    NOT NULL
) WITHOUT ROWID;

-- A member's own row (slot 0 to 1023, no bitmap), or a block follow (slot 1024) that the members' own rows override.
CREATE TABLE follows (
    block        INTEGER NOT NULL,
    slot         INTEGER NOT NULL,
    subject      TEXT    NOT NULL,
    visible_from INTEGER NOT NULL,
    members      BLOB,
    PRIMARY KEY (block, slot, subject)
) WITHOUT ROWID;

CREATE TABLE marks (
    member INTEGER NOT NULL,
    subject TEXT   NOT NULL,
    seq    INTEGER NOT NULL,
    mark   TEXT    NOT NULL,
    PRIMARY KEY (member, subject, seq)
) WITHOUT ROWID;

CREATE TABLE seen (
    member  INTEGER PRIMARY KEY,
    seen_at INTEGER NOT NULL
);

-- Bursts newer than seen_at that were on a page marked as seen.
CREATE TABLE seen_newer (
    member  INTEGER NOT NULL,
    subject TEXT    NOT NULL,
    seq     INTEGER NOT NULL,
    PRIMARY KEY (member, subject, seq)
) WITHOUT ROWID;

-- One row on each side: `blocks` for the member who blocked, `blocked_by` for the one who was.
CREATE TABLE blocks (
    member INTEGER NOT NULL,
    other  TEXT    NOT NULL,
    side   TEXT    NOT NULL CHECK (side IN ('blocks', 'blocked_by')),
    PRIMARY KEY (member, other, side)
) WITHOUT ROWID;

-- What a member asks for of a subject, followed or not: its volume, and the moment before which nothing of it is seen.
-- Of each what was said last stands; -1 where nothing was. Slots as in `follows`: with the slot 1024 it is the mute of all
-- members of the block that the bitmap has, and their own rows override it.
CREATE TABLE wants (
    block           INTEGER NOT NULL,
    slot            INTEGER NOT NULL,
    subject         TEXT    NOT NULL,
    volume          TEXT    NOT NULL,
    volume_at       INTEGER NOT NULL,
    visible_from    INTEGER NOT NULL,
    visible_from_at INTEGER NOT NULL,
    members         BLOB,
    PRIMARY KEY (block, slot, subject)
) WITHOUT ROWID;
