-- Writes an account flag. The highest sequence wins. On a tie, setting the flag wins.
INSERT INTO flags (flag, shard, member, is_on, sequence)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (flag, shard, member) DO UPDATE
SET is_on = excluded.is_on, sequence = excluded.sequence
WHERE excluded.sequence > flags.sequence
   OR (excluded.sequence = flags.sequence AND excluded.is_on > flags.is_on)
