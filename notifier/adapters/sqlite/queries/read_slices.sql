-- The cells of a JSON list of [subject, seq]: of what happened to a slice time and again the last, as only that counts,
-- and of the throttles that parked it all. A slice that waits each second has thousands. Beside max(n), the other
-- columns are those of its row.
SELECT subject, seq, slice, fact, max(n), at, people, rows, phones, note
FROM json_each(?) AS wanted
CROSS JOIN slices
    ON subject = json_extract(wanted.value, '$[0]') AND seq = json_extract(wanted.value, '$[1]')
GROUP BY wanted.key, slice, fact, CASE fact WHEN 'parked' THEN n END
