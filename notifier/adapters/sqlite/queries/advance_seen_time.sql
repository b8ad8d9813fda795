-- Advances seen_at, and never moves it back.
INSERT INTO seen (member, seen_at)
VALUES (?, ?)
ON CONFLICT (member) DO UPDATE SET seen_at = max(seen_at, excluded.seen_at)
