-- One subject's rows in an inbox window behind a place, newest first: the key read backwards, no sorting.
SELECT opened_at, subject, seq, tier, members
FROM inbox
WHERE member_range = ? AND inbox_window = ? AND subject = ? AND (opened_at, seq) < (?, ?)
ORDER BY opened_at DESC, seq DESC, tier DESC
