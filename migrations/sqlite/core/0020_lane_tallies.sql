-- core.db: deaths and stop of each lane (a stream and its group, or a pool of slices). Replaced by the next version alone.
CREATE TABLE lane_tallies (
    lane    TEXT    NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL,
    blob    BLOB    NOT NULL
) WITHOUT ROWID;
