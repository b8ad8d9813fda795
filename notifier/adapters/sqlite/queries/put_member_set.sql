-- Writes one shard of a member set. A higher or equal fencing token wins.
INSERT INTO member_sets (owner, shard, kind, blob, fencing_token)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (owner, shard, kind) DO UPDATE SET blob = excluded.blob, fencing_token = excluded.fencing_token
WHERE excluded.fencing_token >= member_sets.fencing_token
