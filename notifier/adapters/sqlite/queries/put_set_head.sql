-- A subject's counts, unless a later writer's stand.
INSERT INTO set_heads (subject, total, counts, stamp)
VALUES (?, ?, ?, ?)
ON CONFLICT (subject) DO UPDATE SET total = excluded.total, counts = excluded.counts, stamp = excluded.stamp
WHERE excluded.stamp >= set_heads.stamp
