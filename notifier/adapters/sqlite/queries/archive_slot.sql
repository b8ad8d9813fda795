-- What follows a row within its slot: newest first, then by burst and tier, as the key has it.
SELECT block, inbox_window, slot, opened_at, subject, seq, tier, members
FROM inbox
WHERE block = ?1 AND inbox_window = ?2 AND slot = ?3 AND opened_at <= ?4
  AND (opened_at < ?4 OR (subject, seq, tier) > (?5, ?6, ?7))
ORDER BY opened_at DESC, subject, seq, tier
LIMIT ?8
