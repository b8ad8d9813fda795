-- One member's own word, unless what stands was said later.
INSERT INTO wants (block, slot, subject, volume, visible_from, said_at)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (block, slot, subject) DO UPDATE
SET volume = excluded.volume, visible_from = excluded.visible_from, said_at = excluded.said_at
WHERE excluded.said_at > wants.said_at
