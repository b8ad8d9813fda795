-- Writes an account flag. The highest sequence wins. On a tie, setting the flag wins.
INSERT INTO account_flags (flag, shard, member, is_on, sequence)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (flag, shard, member) DO UPDATE
SET is_on = excluded.is_on, sequence = excluded.sequence
WHERE excluded.sequence > account_flags.sequence
   OR (excluded.sequence = account_flags.sequence AND excluded.is_on > account_flags.is_on)
