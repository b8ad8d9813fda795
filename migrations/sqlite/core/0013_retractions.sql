-- core.db: what was taken back, and the trails that lead to the mentions it is about. A trail is `tweet/N/A/T` (T of the
-- author A, whose name has N letters), `author/A` or `day/D/A` (what A has written on a day, of which there may be much).

-- The highest rank stands.
CREATE TABLE retractions (
    trail TEXT    NOT NULL PRIMARY KEY,
    rank  INTEGER NOT NULL,
    blob  BLOB    NOT NULL
) WITHOUT ROWID;

CREATE TABLE mention_trails (
    trail   TEXT    NOT NULL,
    subject TEXT    NOT NULL,
    seq     INTEGER NOT NULL,
    source  TEXT    NOT NULL,
    id      TEXT    NOT NULL,
    PRIMARY KEY (trail, subject, seq, source, id)
) WITHOUT ROWID;

-- Of the burst that changed it last; of two the higher stands.
ALTER TABLE mentions ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
