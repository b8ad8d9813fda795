-- core.db: what a member says of everything, a row for each thing that something was said of (its volume, since when what was
-- silenced is seen again, alerts, quiet hours, the time zone, the digest's hour). Of each what was said last stands. By
-- member, so that a shard is one range.

CREATE TABLE preferences (
    member INTEGER NOT NULL,
    thing  TEXT    NOT NULL,
    value  TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    PRIMARY KEY (member, thing)
) WITHOUT ROWID;
