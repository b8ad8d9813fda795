-- A subject's bursts behind a place and not older than a floor, newest first: the index read backwards, no sorting, and
-- no further than the caller asks.
SELECT opened_at, subject, seq, blob, restricted_to
FROM bursts
WHERE subject = ? AND (opened_at, seq) < (?, ?) AND opened_at >= ?
ORDER BY opened_at DESC, seq DESC
