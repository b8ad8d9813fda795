-- One member's own word, unless what stands has the higher sequence, or the same and is visible later.
INSERT INTO follows (block, slot, subject, visible_from, sequence)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (block, slot, subject) DO UPDATE
SET visible_from = excluded.visible_from, sequence = excluded.sequence
WHERE (excluded.sequence, excluded.visible_from) > (follows.sequence, follows.visible_from)
