-- One slot's rows in an inbox window behind a place, newest first: the key read backwards, no sorting.
SELECT opened_at, subject, seq, tier, slot, members
FROM inbox
WHERE block = ? AND inbox_window = ? AND slot = ? AND (opened_at, subject, seq) < (?, ?, ?)
ORDER BY opened_at DESC, subject DESC, seq DESC
