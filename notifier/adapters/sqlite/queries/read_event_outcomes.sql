-- Outcomes for the accounts that an event names. If the source is NULL, those of all events with this id.
SELECT source, account, subject, seq, refusal
FROM mention_ids
WHERE id = :id AND (:source IS NULL OR source = :source)
ORDER BY source, account, subject
