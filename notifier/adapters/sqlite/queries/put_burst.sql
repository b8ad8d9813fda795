-- The higher version of a burst wins, regardless of arrival order.
INSERT INTO bursts (subject, seq, version, opened_at, restricted_to, blob)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (subject, seq) DO UPDATE
SET version = excluded.version, opened_at = excluded.opened_at, restricted_to = excluded.restricted_to,
    blob = excluded.blob
WHERE excluded.version > version
