-- Next mentions of a burst, after an event.
SELECT source, id, blob FROM mentions
WHERE subject = ? AND seq = ? AND (source, id) > (?, ?)
ORDER BY source, id LIMIT ?
