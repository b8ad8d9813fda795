-- Ledger cells of a JSON list of [subject, seq]. Of a repeating fact only the last occurrence is read, because only
-- that counts; a slice that waits each second has thousands. Each throttle that parked a slice is read. Beside
-- max(number), SQLite takes the other columns from the row of the maximum.
SELECT subject, seq, slice, fact, max(number), at, people, rows, phones, note
FROM json_each(?) AS wanted
CROSS JOIN slices
    ON subject = json_extract(wanted.value, '$[0]') AND seq = json_extract(wanted.value, '$[1]')
GROUP BY wanted.key, slice, fact, CASE fact WHEN 'parked' THEN number END
