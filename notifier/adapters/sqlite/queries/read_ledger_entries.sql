-- Ledger entries of a JSON list of [subject, seq]. Of a repeated fact only the last occurrence is read: a slice that is
-- deferred every second has thousands. Of the fact `parked` all occurrences are read, one for each throttle. SQLite
-- takes the other columns from the row with max(number).
SELECT subject, seq, slice, fact, max(number), at, people, rows, phones, note
FROM json_each(?) AS wanted
CROSS JOIN slices
    ON subject = json_extract(wanted.value, '$[0]') AND seq = json_extract(wanted.value, '$[1]')
GROUP BY wanted.key, slice, fact, CASE fact WHEN 'parked' THEN number END
