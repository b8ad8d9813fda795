-- Writes one side of a user block, unless the stored row has a higher sequence, or the same and lasts longer.
INSERT INTO partings (member, other, side, until, sequence)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (member, side, other) DO UPDATE
SET until = excluded.until, sequence = excluded.sequence
WHERE (excluded.sequence, excluded.until) > (partings.sequence, partings.until)
