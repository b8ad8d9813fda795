-- Next mentions that a lookup key leads to, after a position. If a burst is given, only mentions of that burst.
SELECT subject, seq, source, id FROM mentions_by_retraction_key
WHERE retraction_key = :retraction_key AND (:burst_subject IS NULL OR (subject = :burst_subject AND seq = :burst_seq))
  AND (subject, seq, source, id) > (:subject, :seq, :source, :id)
ORDER BY subject, seq, source, id LIMIT :limit
