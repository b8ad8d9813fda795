-- Of two writes of a burst the higher version stands, in whatever order they come.
INSERT INTO bursts (subject, seq, version, opened_at, restricted_to, blob)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (subject, seq) DO UPDATE
SET version = excluded.version, opened_at = excluded.opened_at, restricted_to = excluded.restricted_to,
    blob = excluded.blob
WHERE excluded.version > version
