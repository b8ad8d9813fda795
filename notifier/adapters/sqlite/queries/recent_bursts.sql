-- The bursts opened since a moment, behind a place, newest first: one index read backwards, no sorting.
SELECT blob
FROM bursts
WHERE opened_at >= ? AND (opened_at, subject, seq) < (?, ?, ?)
ORDER BY opened_at DESC, subject DESC, seq DESC
LIMIT ?
