-- core.db: which bursts were written, in the order of the commits: a row is inserted by the transaction that writes the
-- burst. The newest 50,000 rows or a few more stay. The newest row is never deleted, so ids count on without gaps, also
-- without AUTOINCREMENT, which would write one more page with each commit. A row with seq 0 is a lapse of viewers.
CREATE TABLE burst_changes (
    id      INTEGER PRIMARY KEY,
    subject TEXT    NOT NULL,
    seq     INTEGER NOT NULL
);
