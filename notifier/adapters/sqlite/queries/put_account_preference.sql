-- Writes one field of the account preferences. The latest change wins.
INSERT INTO account_preferences (member, field, value, at)
VALUES (?, ?, ?, ?)
ON CONFLICT (member, field) DO UPDATE SET value = excluded.value, at = excluded.at
WHERE excluded.at > account_preferences.at
