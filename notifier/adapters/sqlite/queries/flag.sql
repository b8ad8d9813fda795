-- What is said of one flag of an account: it stands unless what stands of it was said later; of two that were said at once
-- the one that sets it does.
INSERT INTO flags (flag, shard, member, is_on, sequence)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (flag, shard, member) DO UPDATE
SET is_on = excluded.is_on, sequence = excluded.sequence
WHERE excluded.sequence > flags.sequence
   OR (excluded.sequence = flags.sequence AND excluded.is_on > flags.is_on)
