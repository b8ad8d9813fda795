-- Who stays in a set until an hour, unless a later writer's word stands.
INSERT INTO stays (kind, shard, until, blob, stamp)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (kind, shard, until) DO UPDATE SET blob = excluded.blob, stamp = excluded.stamp
WHERE excluded.stamp >= stays.stamp
