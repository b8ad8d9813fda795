-- Advances seen_at, never back.
INSERT INTO seen (member, seen_at)
VALUES (?, ?)
ON CONFLICT (member) DO UPDATE SET seen_at = max(seen_at, excluded.seen_at)
