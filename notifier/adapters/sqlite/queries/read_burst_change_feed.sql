-- Each changed burst once, with its last change. All lapses count as one burst.
SELECT max(id), subject, seq
FROM burst_changes
WHERE id > ?
GROUP BY subject, seq
LIMIT ?
