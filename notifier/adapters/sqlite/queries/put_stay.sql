-- Writes active-set entries with an expiry hour. A higher or equal fencing token wins.
INSERT INTO stays (kind, shard, until, blob, stamp)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (kind, shard, until) DO UPDATE SET blob = excluded.blob, stamp = excluded.stamp
WHERE excluded.stamp >= stays.stamp
