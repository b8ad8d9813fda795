-- Writes active-set entries with an expiry hour. A higher or equal fencing token wins.
INSERT INTO active_set_entries (kind, shard, last_hour, blob, fencing_token)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (kind, shard, last_hour) DO UPDATE SET blob = excluded.blob, fencing_token = excluded.fencing_token
WHERE excluded.fencing_token >= active_set_entries.fencing_token
