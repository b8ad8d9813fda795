-- The cells of a JSON list of [subject, seq].
SELECT subject, seq, slice, fact, n, at, people, rows, phones, note
FROM json_each(?) AS wanted
CROSS JOIN slices
    ON subject = json_extract(wanted.value, '$[0]') AND seq = json_extract(wanted.value, '$[1]')
