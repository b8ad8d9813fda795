-- Each changed burst once, with its last change.
SELECT max(id), subject, seq
FROM burst_changes
WHERE id > ?
GROUP BY subject, seq
LIMIT ?
