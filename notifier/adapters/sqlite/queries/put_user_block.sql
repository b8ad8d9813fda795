-- Writes one side of a user block. The higher sequence wins; on a tie the later end.
INSERT INTO user_blocks (member, other_account, direction, until, sequence)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (member, direction, other_account) DO UPDATE
SET until = excluded.until, sequence = excluded.sequence
WHERE (excluded.sequence, excluded.until) > (user_blocks.sequence, user_blocks.until)
