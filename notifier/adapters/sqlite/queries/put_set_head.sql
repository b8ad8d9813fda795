-- Writes a subject's counts. A higher or equal fencing token wins.
INSERT INTO set_heads (subject, total, counts, stamp)
VALUES (?, ?, ?, ?)
ON CONFLICT (subject) DO UPDATE SET total = excluded.total, counts = excluded.counts, stamp = excluded.stamp
WHERE excluded.stamp >= set_heads.stamp
