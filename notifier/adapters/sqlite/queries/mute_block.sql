-- Many members of a block who have muted a subject.
INSERT OR REPLACE INTO wants (block, slot, subject, volume, visible_from, said_at, members)
VALUES (?, ?, ?, 'all', 0, 0, ?)
