-- All sets that decide who the subject's audience is in a shard: its own, and those of everybody.
-- The key is (owner, shard, kind), so this is two short runs of neighbours.
SELECT kind, blob
FROM member_sets
WHERE owner IN (?, '') AND shard = ?
