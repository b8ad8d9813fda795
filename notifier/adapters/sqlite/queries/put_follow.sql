-- Writes a member's own follow row. The higher sequence wins; on a tie the later visible_from.
INSERT INTO follows (block, slot, subject, visible_from, sequence)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (block, slot, subject) DO UPDATE
SET visible_from = excluded.visible_from, sequence = excluded.sequence
WHERE (excluded.sequence, excluded.visible_from) > (follows.sequence, follows.visible_from)
