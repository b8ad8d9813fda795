-- core.db: who blocks whom, or does so no longer, on both sides: `blocks` for the member who blocks, `blocked_by` for the other.
-- Until when the two are apart, in the year 9999 while the block stands; the highest sequence counts, so an unblock keeps its
-- row. What was known before has none, and any is later. By side, for a member's own are all read, and of the others the first.

CREATE TABLE partings (
    member   INTEGER NOT NULL,
    other    TEXT    NOT NULL,
    side     TEXT    NOT NULL CHECK (side IN ('blocks', 'blocked_by')),
    until    INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    PRIMARY KEY (member, side, other)
) WITHOUT ROWID;

INSERT INTO partings (member, other, side, until, sequence)
SELECT member, other, side, 253370764800000, 0 FROM blocks;

DROP TABLE blocks;

-- Finds the people of a shard whom a block parts from an account, without reading the others.
CREATE INDEX partings_by_other ON partings (other, member, until);
