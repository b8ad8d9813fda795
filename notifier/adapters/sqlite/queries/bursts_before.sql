-- A subject's bursts behind a place and not older than a floor, newest first: the index read backwards, no sorting.
SELECT opened_at, subject, seq, blob
FROM bursts
WHERE subject = ? AND (opened_at, seq) < (?, ?) AND opened_at >= ?
ORDER BY opened_at DESC, seq DESC
LIMIT ?
