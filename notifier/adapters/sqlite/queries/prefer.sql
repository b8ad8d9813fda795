-- One thing that a member says of everything, unless what stands of it was said later.
INSERT INTO preferences (member, thing, value, at)
VALUES (?, ?, ?, ?)
ON CONFLICT (member, thing) DO UPDATE SET value = excluded.value, at = excluded.at
WHERE excluded.at > preferences.at
