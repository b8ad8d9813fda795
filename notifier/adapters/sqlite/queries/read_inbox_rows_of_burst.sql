-- Rows of one burst in one range and inbox window, with opening times between two bounds.
SELECT member_range, inbox_window, subject, opened_at, seq, tier, members
FROM inbox
WHERE member_range = ? AND inbox_window = ? AND subject = ? AND opened_at BETWEEN ? AND ? AND seq = ?
ORDER BY opened_at, tier
