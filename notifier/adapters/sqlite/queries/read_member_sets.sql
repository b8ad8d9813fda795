-- The subject's sets and the account-wide sets of a shard. The key is (owner, shard, kind), so this reads two short
-- ranges.
SELECT kind, blob
FROM member_sets
WHERE owner IN (?, '') AND shard = ?
