-- core.db: heads, bursts, mentions and the ledger. A burst is (subject, seq); times are milliseconds since 1970.

-- Changed by compare-and-set on the version alone; `published` is 0 while the head's outbox holds work.
CREATE TABLE heads (
    subject   TEXT    NOT NULL PRIMARY KEY,
    version   INTEGER NOT NULL,
    nonce     TEXT    NOT NULL,
    published INTEGER NOT NULL,
    blob      BLOB    NOT NULL
) WITHOUT ROWID;

CREATE INDEX heads_unpublished ON heads (subject) WHERE published = 0;

CREATE TABLE bursts (
    subject   TEXT    NOT NULL,
    seq       INTEGER NOT NULL,
    version   INTEGER NOT NULL,
    opened_at INTEGER NOT NULL,
    blob      BLOB    NOT NULL,
    PRIMARY KEY (subject, seq)
) WITHOUT ROWID;

-- Read from the end; the key's seq follows by itself.
CREATE INDEX bursts_of_a_subject ON bursts (subject, opened_at);
CREATE INDEX bursts_by_opening ON bursts (opened_at);

CREATE TABLE mentions (
    subject TEXT    NOT NULL,
    seq     INTEGER NOT NULL,
    source  TEXT    NOT NULL,
    id      TEXT    NOT NULL,
    blob    BLOB    NOT NULL,
    PRIMARY KEY (subject, seq, source, id)
) WITHOUT ROWID;

-- The dedupe that counts, and what became of each account that an event names: a seq, or a refusal with subject ''.
-- The id comes first because it may be asked for without its source.
CREATE TABLE mention_ids (
    id      TEXT NOT NULL,
    source  TEXT NOT NULL,
    account TEXT NOT NULL,
    subject TEXT NOT NULL,
    seq     INTEGER,
    refusal TEXT,
    PRIMARY KEY (id, source, account, subject)
) WITHOUT ROWID;

CREATE TABLE plans (
    subject TEXT    NOT NULL,
    seq     INTEGER NOT NULL,
    blob    BLOB    NOT NULL,
    PRIMARY KEY (subject, seq)
) WITHOUT ROWID;

CREATE TABLE open_bursts (
    subject   TEXT    NOT NULL,
    seq       INTEGER NOT NULL,
    opened_at INTEGER NOT NULL,
    PRIMARY KEY (subject, seq)
) WITHOUT ROWID;

CREATE INDEX open_bursts_by_opening ON open_bursts (opened_at);

-- Write-once cells; `slice` is the slice as it is written, `mention:nova#12/rows/p1/0-63`.
CREATE TABLE slices (
    subject TEXT    NOT NULL,
    seq     INTEGER NOT NULL,
    slice   TEXT    NOT NULL,
    fact    TEXT    NOT NULL,
    n       INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    people  INTEGER NOT NULL,
    rows    INTEGER NOT NULL,
    note    TEXT    NOT NULL,
    PRIMARY KEY (subject, seq, slice, fact, n)
) WITHOUT ROWID;

CREATE TABLE claims (
    subject    TEXT    NOT NULL,
    seq        INTEGER NOT NULL,
    slice      TEXT    NOT NULL,
    attempt    INTEGER NOT NULL,
    owner      TEXT    NOT NULL,
    claimed_at INTEGER NOT NULL,
    until      INTEGER NOT NULL,
    reached    INTEGER NOT NULL,
    PRIMARY KEY (subject, seq, slice)
) WITHOUT ROWID;

-- An intent without an outcome (sent is NULL) was in flight at a crash.
CREATE TABLE sent (
    subject TEXT    NOT NULL,
    seq     INTEGER NOT NULL,
    tier    TEXT    NOT NULL,
    shard   INTEGER NOT NULL,
    sent    INTEGER,
    PRIMARY KEY (subject, seq, tier, shard)
) WITHOUT ROWID;
