-- What became of the accounts that an event names; with a source of NULL, of every event with this id.
SELECT source, account, subject, seq, refusal
FROM mention_ids
WHERE id = :id AND (:source IS NULL OR source = :source)
ORDER BY source, account, subject
