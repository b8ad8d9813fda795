-- Writes a subject's follower counts. A higher or equal fencing token wins.
INSERT INTO follower_counts (subject, total, by_shard, fencing_token)
VALUES (?, ?, ?, ?)
ON CONFLICT (subject) DO UPDATE
SET total = excluded.total, by_shard = excluded.by_shard, fencing_token = excluded.fencing_token
WHERE excluded.fencing_token >= follower_counts.fencing_token
