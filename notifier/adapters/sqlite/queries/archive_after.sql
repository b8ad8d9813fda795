-- The rows of the slots that follow a slot, in the order of the key.
SELECT block, inbox_window, slot, opened_at, subject, seq, tier, members
FROM inbox
WHERE (block, inbox_window, slot) > (?1, ?2, ?3)
ORDER BY block, inbox_window, slot, opened_at DESC, subject, seq, tier
LIMIT ?4
