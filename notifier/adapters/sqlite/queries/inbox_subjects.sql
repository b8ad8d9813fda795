-- Which of these subjects have rows in an inbox window of a range.
SELECT wanted.value
FROM json_each(?1) AS wanted
WHERE EXISTS (SELECT 1 FROM inbox WHERE member_range = ?2 AND inbox_window = ?3 AND subject = wanted.value)
