-- One burst's rows in one block.
SELECT block, inbox_window, slot, opened_at, subject, seq, tier, members
FROM inbox
WHERE block = ? AND inbox_window = ? AND subject = ? AND seq = ?
ORDER BY slot, opened_at DESC, tier
