-- Claims a slice unless it has an unexpired claim. A returned row means success.
INSERT INTO claims (subject, seq, slice, attempt, owner, claimed_at, until, reached)
VALUES (?, ?, ?, 1, ?, ?, ?, 0)
ON CONFLICT (subject, seq, slice) DO UPDATE
SET attempt = attempt + 1, owner = excluded.owner, claimed_at = excluded.claimed_at, until = excluded.until
WHERE until <= excluded.claimed_at
RETURNING attempt, reached
