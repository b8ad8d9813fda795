-- The next mentions that a trail leads to, behind a place; only those from a burst's first to its last where one is named.
SELECT subject, seq, source, id FROM mention_trails
WHERE trail = :trail AND (:burst IS NULL OR (subject = :burst AND seq = :of))
  AND (subject, seq, source, id) > (:subject, :seq, :source, :id)
ORDER BY subject, seq, source, id LIMIT :most
