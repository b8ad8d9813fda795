-- One burst's rows in one range.
SELECT member_range, inbox_window, subject, opened_at, seq, tier, members
FROM inbox
WHERE member_range = ? AND inbox_window = ? AND subject = ? AND opened_at = ? AND seq = ?
ORDER BY tier
