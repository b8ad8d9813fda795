-- All sets that decide the subject's audience in a shard: its own and the account-wide ones. The key is (owner, shard,
-- kind), so that this reads two short ranges.
SELECT kind, blob
FROM member_sets
WHERE owner IN (?, '') AND shard = ?
