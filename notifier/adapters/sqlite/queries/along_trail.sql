-- Next mentions that a retraction key leads to, after a position. If a burst is given, only mentions of that burst.
SELECT subject, seq, source, id FROM mention_trails
WHERE trail = :trail AND (:burst IS NULL OR (subject = :burst AND seq = :of))
  AND (subject, seq, source, id) > (:subject, :seq, :source, :id)
ORDER BY subject, seq, source, id LIMIT :most
