-- Writes a member's own preference. The latest change of each of the two fields wins.
INSERT INTO subject_preferences AS stored (block, slot, subject, volume, volume_at, visible_from, visible_from_at)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (block, slot, subject) DO UPDATE
SET volume = iif(excluded.volume_at > stored.volume_at, excluded.volume, stored.volume),
    volume_at = max(excluded.volume_at, stored.volume_at),
    visible_from = iif(excluded.visible_from_at > stored.visible_from_at, excluded.visible_from, stored.visible_from),
    visible_from_at = max(excluded.visible_from_at, stored.visible_from_at)
