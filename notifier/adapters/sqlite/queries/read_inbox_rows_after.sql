-- Next rows after a given row, in key order.
SELECT member_range, inbox_window, subject, opened_at, seq, tier, members
FROM inbox
WHERE (member_range, inbox_window, subject, opened_at, seq, tier) > (?, ?, ?, ?, ?, ?)
ORDER BY member_range, inbox_window, subject, opened_at, seq, tier
LIMIT ?
