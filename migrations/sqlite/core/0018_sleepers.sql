-- core.db: bursts of which nothing is to be done before a moment (`until`, in milliseconds since 1970), because their last
-- people sleep, or a provider wants to be asked later. An open burst is here or in open_bursts: the dispatcher reads all of
-- those each second, and of these what is due.
CREATE TABLE sleepers (
    subject   TEXT    NOT NULL,
    seq       INTEGER NOT NULL,
    opened_at INTEGER NOT NULL,
    until     INTEGER NOT NULL,
    PRIMARY KEY (subject, seq)
) WITHOUT ROWID;

CREATE INDEX sleepers_by_waking ON sleepers (until);
