-- Each changed burst once, and the lapse, with the last change.
SELECT max(id), subject, seq
FROM burst_changes
WHERE id > ?
GROUP BY subject, seq
LIMIT ?
