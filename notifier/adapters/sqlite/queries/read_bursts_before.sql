-- Bursts of a subject that opened since a given time, after a position, newest first. Reads the index backwards
-- without sorting, and no further than the caller fetches.
SELECT opened_at, subject, seq, blob, restricted_to
FROM bursts
WHERE subject = ? AND (opened_at, seq) < (?, ?) AND opened_at >= ?
ORDER BY opened_at DESC, seq DESC
