-- Rows of one subject in an inbox window after a position, newest first. Reads the key backwards without sorting.
SELECT opened_at, subject, seq, tier, members
FROM inbox
WHERE member_range = ? AND inbox_window = ? AND subject = ? AND (opened_at, seq) < (?, ?)
ORDER BY opened_at DESC, seq DESC, tier DESC
