-- Writes one shard of a member set. A higher or equal fencing token wins.
INSERT INTO member_sets (owner, shard, kind, blob, stamp)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (owner, shard, kind) DO UPDATE SET blob = excluded.blob, stamp = excluded.stamp
WHERE excluded.stamp >= member_sets.stamp
