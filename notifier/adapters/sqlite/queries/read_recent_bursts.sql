-- Bursts opened since a time, after a position, newest first. Reads one index backwards without sorting.
SELECT blob
FROM bursts
WHERE opened_at >= ? AND (opened_at, subject, seq) < (?, ?, ?)
ORDER BY opened_at DESC, subject DESC, seq DESC
LIMIT ?
