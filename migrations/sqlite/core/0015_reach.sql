-- core.db: how far mentions carry. Times are milliseconds since 1970.

-- What operators said of mentioners; of an account what was said last stands.
CREATE TABLE reaches (
    user    TEXT    NOT NULL PRIMARY KEY,
    verdict TEXT    NOT NULL,
    reason  TEXT    NOT NULL,
    who     TEXT    NOT NULL,
    at      INTEGER NOT NULL
) WITHOUT ROWID;

-- Mentions that wait for a person, or waited: the event is NULL after 30 days, the row goes after 91.
CREATE TABLE holds (
    id       TEXT    NOT NULL,
    source   TEXT    NOT NULL,
    author   TEXT    NOT NULL,
    accounts BLOB    NOT NULL,
    since    INTEGER NOT NULL,
    event    BLOB,
    decision TEXT,
    PRIMARY KEY (id, source)
);

CREATE INDEX holds_by_since ON holds (since);
CREATE INDEX holds_waiting ON holds (since) WHERE decision IS NULL;
