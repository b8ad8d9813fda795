-- Writes one field of the account preferences. The latest change wins.
INSERT INTO preferences (member, thing, value, at)
VALUES (?, ?, ?, ?)
ON CONFLICT (member, thing) DO UPDATE SET value = excluded.value, at = excluded.at
WHERE excluded.at > preferences.at
