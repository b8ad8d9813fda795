-- Writes an operator's verdict on an author. The latest verdict wins.
INSERT INTO author_verdicts (user, verdict, reason, operator, at)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (user) DO UPDATE
SET verdict = excluded.verdict, reason = excluded.reason, operator = excluded.operator, at = excluded.at
WHERE excluded.at > author_verdicts.at
