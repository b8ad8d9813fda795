-- Deletes the oldest expired audience snapshots.
DELETE FROM seals
WHERE (subject, seq, shard) IN (SELECT subject, seq, shard FROM seals WHERE sealed_at <= ? ORDER BY sealed_at LIMIT ?)
