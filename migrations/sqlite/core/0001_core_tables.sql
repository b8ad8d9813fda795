-- core.db: users, preferences, bursts, the delivery ledger, push and operations; everything but inbox rows, audience
-- snapshots and the event log.
--
-- Conventions, in every table:
-- - Times are milliseconds since 1970, unless a comment says hours.
-- - A subject is written `mention:nova`. A burst is (subject, seq).
-- - `member` is the dense number of a user. A block is 1,024 members, a shard is 131,072 members (128 blocks).
-- - BLOB columns hold values packed by notifier.codec, except for bitmaps, counts, hashes and bodies.
-- - `fencing_token` is the writer's: a row with a higher or equal token wins. Imported rows have 0.
-- - `sequence` is the number that the sending service gave the change: the highest wins. Imported rows have 0.

-- Users and their member numbers -------------------------------------------------------------------------------------

-- Imported users whose ids are `prefix` and a number: `count` successive numbers from `first_id` on have successive
-- members from `member` on.
CREATE TABLE user_ranges (
    prefix   TEXT    NOT NULL,
    first_id INTEGER NOT NULL,
    count    INTEGER NOT NULL,
    member   INTEGER NOT NULL,
    PRIMARY KEY (prefix, first_id)
) WITHOUT ROWID;

CREATE INDEX user_ranges_by_member ON user_ranges (member);

-- Users by outside id. A deleted account keeps its row, because its number is never given again. An empty `account`
-- stands for default values.
CREATE TABLE users (
    user    TEXT    NOT NULL PRIMARY KEY,
    member  INTEGER NOT NULL,
    account BLOB    NOT NULL,
    deleted INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- Finds the deleted accounts of a shard, which get no alerts.
CREATE INDEX users_deleted ON users (member) WHERE deleted = 1;

-- Users by member number.
CREATE TABLE members (
    member INTEGER PRIMARY KEY,
    user   TEXT    NOT NULL
);

-- The next free number of each name.
CREATE TABLE counters (
    name        TEXT    NOT NULL PRIMARY KEY,
    next_number INTEGER NOT NULL
) WITHOUT ROWID;

INSERT INTO counters (name, next_number) VALUES ('members', 0);

-- Account flags of the platform (verified, vip, deleted), one row per flag and member. The key keeps the rows
-- of a flag and shard together, because a bitmap is made from them.
CREATE TABLE account_flags (
    flag     TEXT    NOT NULL,
    shard    INTEGER NOT NULL,
    member   INTEGER NOT NULL,
    is_on    INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    PRIMARY KEY (flag, shard, member)
) WITHOUT ROWID;

-- Audiences ----------------------------------------------------------------------------------------------------------

-- Bitmaps of members, one per shard and kind. The owner is a subject, or '' for sets that concern every subject.
-- The key keeps the sets of an owner and shard together, because an audience snapshot reads them.
CREATE TABLE member_sets (
    owner         TEXT    NOT NULL,
    shard         INTEGER NOT NULL,
    kind          TEXT    NOT NULL,
    blob          BLOB    NOT NULL,
    fencing_token INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (owner, shard, kind)
) WITHOUT ROWID;

-- Follower counts of subjects. `by_shard` has one unsigned 32-bit little-endian number for each shard.
CREATE TABLE follower_counts (
    subject       TEXT    NOT NULL PRIMARY KEY,
    total         INTEGER NOT NULL,
    by_shard      BLOB    NOT NULL,
    fencing_token INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- Bitmaps of the active sets, each with the hour since 1970 until which its members are in the set.
CREATE TABLE active_set_entries (
    kind          TEXT    NOT NULL,
    shard         INTEGER NOT NULL,
    last_hour     INTEGER NOT NULL,
    blob          BLOB    NOT NULL,
    fencing_token INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (kind, shard, last_hour)
) WITHOUT ROWID;

-- What users follow, prefer, block and have seen ----------------------------------------------------------------------

-- Follows. Slots 0 to 1023 are the members of the block, each with a row of its own and no bitmap. Slot 1024 is a
-- follow by all members of the bitmap; a member's own row overrides it.
CREATE TABLE follows (
    block        INTEGER NOT NULL,
    slot         INTEGER NOT NULL,
    subject      TEXT    NOT NULL,
    visible_from INTEGER NOT NULL,
    members      BLOB,
    sequence     INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (block, slot, subject)
) WITHOUT ROWID;

CREATE INDEX follows_by_shard ON follows (subject, block / 128, visible_from);

-- Subject preferences: how much a member wants of a subject, followed or not, and the time before which nothing of it
-- is shown. The latest change of each column wins, by its `_at` column, which is -1 while the column was never set.
-- Slots as in `follows`; slot 1024 is a mute by all members of the bitmap.
CREATE TABLE subject_preferences (
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

CREATE INDEX subject_preferences_by_shard ON subject_preferences (subject, block / 128);

-- Account preferences, one row for each field that the member has set. The latest change of a field wins.
CREATE TABLE account_preferences (
    member INTEGER NOT NULL,
    field  TEXT    NOT NULL,
    value  TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    PRIMARY KEY (member, field)
) WITHOUT ROWID;

-- User blocks, one row for each side of a block: `blocks` for the member who blocks, `blocked_by` for the other.
-- `until` is in the year 9999 while the block stands; an unblock keeps the row, so that a late block loses to it. The
-- key has the direction, because a page reads all `blocks` rows of its viewer, but only the first `blocked_by` rows.
CREATE TABLE user_blocks (
    member        INTEGER NOT NULL,
    other_account TEXT    NOT NULL,
    direction     TEXT    NOT NULL CHECK (direction IN ('blocks', 'blocked_by')),
    until         INTEGER NOT NULL,
    sequence      INTEGER NOT NULL,
    PRIMARY KEY (member, direction, other_account)
) WITHOUT ROWID;

-- Finds the members of a shard who are hidden from an account.
CREATE INDEX user_blocks_by_account ON user_blocks (other_account, member, until);

-- Marks of a member on a burst (read, unread, hidden; `none` after a mark was taken back).
CREATE TABLE marks (
    member  INTEGER NOT NULL,
    subject TEXT    NOT NULL,
    seq     INTEGER NOT NULL,
    mark    TEXT    NOT NULL,
    PRIMARY KEY (member, subject, seq)
) WITHOUT ROWID;

-- Finds the members of a shard who need no alert of a burst any more. So do seen_by_shard and also_seen_by_burst.
CREATE INDEX marks_by_burst ON marks (subject, seq, member);

-- When each member last saw the inbox.
CREATE TABLE seen (
    member  INTEGER PRIMARY KEY,
    seen_at INTEGER NOT NULL
);

CREATE INDEX seen_by_shard ON seen (member / 131072, seen_at);

-- Bursts that are newer than `seen_at` but were on a page that was marked as seen.
CREATE TABLE also_seen (
    member  INTEGER NOT NULL,
    subject TEXT    NOT NULL,
    seq     INTEGER NOT NULL,
    PRIMARY KEY (member, subject, seq)
) WITHOUT ROWID;

CREATE INDEX also_seen_by_burst ON also_seen (subject, seq, member);

-- Bursts and mentions --------------------------------------------------------------------------------------------------

-- Sequence heads, changed only by compare-and-set on the version. `published` is 0 while the head's outbox has
-- unpublished changes.
CREATE TABLE sequence_heads (
    subject   TEXT    NOT NULL PRIMARY KEY,
    version   INTEGER NOT NULL,
    nonce     TEXT    NOT NULL,
    published INTEGER NOT NULL,
    blob      BLOB    NOT NULL
) WITHOUT ROWID;

-- Finds heads with unpublished changes, such as those that a crashed coordinator left.
CREATE INDEX sequence_heads_unpublished ON sequence_heads (subject) WHERE published = 0;

-- Bursts. `restricted_to` is the protected account whose followers may see the burst, '' for a public burst. It is a
-- column, so that a page can skip bursts that its viewer may not see.
CREATE TABLE bursts (
    subject       TEXT    NOT NULL,
    seq           INTEGER NOT NULL,
    version       INTEGER NOT NULL,
    opened_at     INTEGER NOT NULL,
    blob          BLOB    NOT NULL,
    restricted_to TEXT    NOT NULL DEFAULT '',
    PRIMARY KEY (subject, seq)
) WITHOUT ROWID;

-- Pages read this index backwards. SQLite appends the seq, because it is in the primary key.
CREATE INDEX bursts_by_subject ON bursts (subject, opened_at);
CREATE INDEX bursts_by_opening ON bursts (opened_at);

-- Change feed of the bursts: the transaction that writes a burst adds a row. At least the newest 50,000 rows are kept.
-- The newest row is never deleted, so no id is used twice. AUTOINCREMENT would write one more page with each commit. A
-- row with seq 0 is a lapse: all processes must read their viewer facts again.
CREATE TABLE burst_changes (
    id      INTEGER PRIMARY KEY,
    subject TEXT    NOT NULL,
    seq     INTEGER NOT NULL
);

-- Mentions of each burst. `version` is the version of the burst with which the mention was last changed, 0 while it is
-- unchanged; the higher wins.
CREATE TABLE mentions (
    subject TEXT    NOT NULL,
    seq     INTEGER NOT NULL,
    source  TEXT    NOT NULL,
    id      TEXT    NOT NULL,
    blob    BLOB    NOT NULL,
    version INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (subject, seq, source, id)
) WITHOUT ROWID;

-- Deduplication, and the outcome for each account that an event names: a seq, or a refusal with subject ''.
-- The id comes first, because it may be looked up without its source.
CREATE TABLE mention_ids (
    id      TEXT    NOT NULL,
    source  TEXT    NOT NULL,
    account TEXT    NOT NULL,
    subject TEXT    NOT NULL,
    seq     INTEGER,
    refusal TEXT,
    PRIMARY KEY (id, source, account, subject)
) WITHOUT ROWID;

-- Retractions; the highest rank wins. Keys are `tweet/N/A/T` (tweet T of the author A, whose id has N characters),
-- `erased/A` and `author/A` (a protection).
CREATE TABLE retractions (
    retraction_key TEXT    NOT NULL PRIMARY KEY,
    rank           INTEGER NOT NULL,
    blob           BLOB    NOT NULL
) WITHOUT ROWID;

-- Mentions by their lookup keys: `tweet/N/A/T` as above, and `day/D/A` with the day D on which they were accepted.
CREATE TABLE mentions_by_retraction_key (
    retraction_key TEXT    NOT NULL,
    subject        TEXT    NOT NULL,
    seq            INTEGER NOT NULL,
    source         TEXT    NOT NULL,
    id             TEXT    NOT NULL,
    PRIMARY KEY (retraction_key, subject, seq, source, id)
) WITHOUT ROWID;

-- Operators' verdicts on authors. The latest verdict on an account wins.
CREATE TABLE author_verdicts (
    user     TEXT    NOT NULL PRIMARY KEY,
    verdict  TEXT    NOT NULL,
    reason   TEXT    NOT NULL,
    operator TEXT    NOT NULL,
    at       INTEGER NOT NULL
) WITHOUT ROWID;

-- Mentions that wait for an operator's decision, or have one. Each write of held mentions also sets `event` to NULL in
-- rows older than 30 days, and deletes rows older than 91 days.
CREATE TABLE held_mentions (
    id       TEXT    NOT NULL,
    source   TEXT    NOT NULL,
    author   TEXT    NOT NULL,
    accounts BLOB    NOT NULL,
    since    INTEGER NOT NULL,
    event    BLOB,
    decision TEXT,
    PRIMARY KEY (id, source)
);

CREATE INDEX held_mentions_by_time ON held_mentions (since);
CREATE INDEX held_mentions_waiting ON held_mentions (since) WHERE decision IS NULL;

-- Delivery ledger ------------------------------------------------------------------------------------------------------

-- How a burst is cut into slices. Written once.
CREATE TABLE plans (
    subject TEXT    NOT NULL,
    seq     INTEGER NOT NULL,
    blob    BLOB    NOT NULL,
    PRIMARY KEY (subject, seq)
) WITHOUT ROWID;

-- Bursts with unfinished work that are not deferred.
CREATE TABLE open_bursts (
    subject   TEXT    NOT NULL,
    seq       INTEGER NOT NULL,
    opened_at INTEGER NOT NULL,
    PRIMARY KEY (subject, seq)
) WITHOUT ROWID;

CREATE INDEX open_bursts_by_opening ON open_bursts (opened_at);

-- Deferred bursts, which have nothing to do before `until`. A burst with unfinished work is here or in open_bursts.
CREATE TABLE deferred_bursts (
    subject   TEXT    NOT NULL,
    seq       INTEGER NOT NULL,
    opened_at INTEGER NOT NULL,
    until     INTEGER NOT NULL,
    PRIMARY KEY (subject, seq)
) WITHOUT ROWID;

CREATE INDEX deferred_bursts_by_wake_up ON deferred_bursts (until);

-- Facts about slices, each written once. `slice` is written `mention:nova#12/rows/p1/0-63`. In the fact that ends a
-- slice of rows, `phones` is the number of members to alert, or NULL if they were not counted.
CREATE TABLE slices (
    subject TEXT    NOT NULL,
    seq     INTEGER NOT NULL,
    slice   TEXT    NOT NULL,
    fact    TEXT    NOT NULL,
    number  INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    people  INTEGER NOT NULL,
    rows    INTEGER NOT NULL,
    note    TEXT    NOT NULL,
    phones  INTEGER,
    PRIMARY KEY (subject, seq, slice, fact, number)
) WITHOUT ROWID;

-- Leases of workers on slices. Shards below `reached` are done: the next attempt resumes there.
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

-- Push -----------------------------------------------------------------------------------------------------------------

-- The highest-ranked change of each device: its owner and its address as registered, or a removal (`registration` is
-- NULL). Each write of devices also deletes some of the rows whose `at` is 270 days ago or more.
CREATE TABLE devices (
    device       TEXT    NOT NULL PRIMARY KEY,
    platform     TEXT    NOT NULL,
    member       INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    registration BLOB
);

CREATE INDEX devices_by_platform ON devices (platform, member) WHERE registration IS NOT NULL;
CREATE INDEX devices_by_time ON devices (at);

-- Send log, one row per batch of alerts: `intent` is written before the batch is sent, `outcome` (what failed)
-- afterwards. `outcome` is NULL while the batch is being sent, and after a crash. Each write of new batches also
-- deletes some of the rows whose `at` is eight days ago or more.
CREATE TABLE send_log (
    subject  TEXT    NOT NULL,
    seq      INTEGER NOT NULL,
    shard    INTEGER NOT NULL,
    platform TEXT    NOT NULL,
    tier     TEXT    NOT NULL,
    number   INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    intent   BLOB    NOT NULL,
    outcome  BLOB,
    PRIMARY KEY (subject, seq, shard, platform, tier, number)
) WITHOUT ROWID;

CREATE INDEX send_log_by_time ON send_log (at);

-- Operations -----------------------------------------------------------------------------------------------------------

-- Throttles of tiers. A rate of NULL is a pause.
CREATE TABLE throttles (
    id        TEXT    NOT NULL PRIMARY KEY,
    tier      TEXT    NOT NULL,
    rate      REAL,
    reason    TEXT    NOT NULL,
    operator  TEXT    NOT NULL,
    starts_at INTEGER NOT NULL,
    ends_at   INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX throttles_by_end ON throttles (ends_at);

-- Audit log, append-only. Each hash is SHA-256 over the previous hash and the row's body, so a changed row is detected.
CREATE TABLE audit (
    number INTEGER PRIMARY KEY,
    hash   BLOB    NOT NULL,
    body   BLOB    NOT NULL
);

-- Records and slices that failed for good, each with its cause.
CREATE TABLE dead_letters (
    id    TEXT    NOT NULL PRIMARY KEY,
    stage TEXT    NOT NULL,
    cause TEXT    NOT NULL,
    body  BLOB    NOT NULL,
    at    INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX dead_letters_by_time ON dead_letters (at);

-- Dead-letter counts of each processing lane (a stream and its consumer group, or a pool), and whether the lane is
-- stopped. A row is replaced only by its next version.
CREATE TABLE lane_tallies (
    lane    TEXT    NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL,
    blob    BLOB    NOT NULL
) WITHOUT ROWID;

-- Leases of leaders.
CREATE TABLE leases (
    name  TEXT    NOT NULL PRIMARY KEY,
    owner TEXT    NOT NULL,
    until INTEGER NOT NULL
) WITHOUT ROWID;
