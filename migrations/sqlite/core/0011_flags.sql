-- core.db: what the platform says of accounts, flag by flag (verified, vip, deleted): the highest sequence stands.
-- Ordered so that all VIPs of a shard are neighbours: their bitmap is made of exactly them.

CREATE TABLE flags (
    flag     TEXT    NOT NULL,
    shard    INTEGER NOT NULL,
    member   INTEGER NOT NULL,
    is_on    INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    PRIMARY KEY (flag, shard, member)
) WITHOUT ROWID;
