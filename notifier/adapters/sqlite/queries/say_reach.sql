-- Writes an operator's verdict on a mentioner. The latest verdict wins.
INSERT INTO reaches (user, verdict, reason, who, at)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (user) DO UPDATE
SET verdict = excluded.verdict, reason = excluded.reason, who = excluded.who, at = excluded.at
WHERE excluded.at > reaches.at
