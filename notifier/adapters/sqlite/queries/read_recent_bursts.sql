-- Bursts opened since a time, after a position, newest first. It reads one index backwards without sorting.
SELECT blob
FROM bursts
WHERE opened_at >= ? AND (opened_at, subject, seq) < (?, ?, ?)
ORDER BY opened_at DESC, subject DESC, seq DESC
LIMIT ?
