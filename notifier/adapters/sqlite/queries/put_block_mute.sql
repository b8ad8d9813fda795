-- Writes which members of a block have muted a subject.
INSERT OR REPLACE INTO subject_preferences (
    block, slot, subject, volume, volume_at, visible_from, visible_from_at, members
)
VALUES (?, ?, ?, 'default', 0, 0, 0, ?)
