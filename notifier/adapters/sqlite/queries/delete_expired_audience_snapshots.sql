-- Deletes the oldest expired audience snapshots.
DELETE FROM audience_snapshots
WHERE (subject, seq, shard) IN (
    SELECT subject, seq, shard FROM audience_snapshots WHERE taken_at <= ? ORDER BY taken_at LIMIT ?
)
