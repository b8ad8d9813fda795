-- Claims on slices of a JSON list of [subject, seq].
SELECT subject, seq, slice, attempt, owner, claimed_at, until, reached
FROM json_each(?) AS wanted
CROSS JOIN claims
    ON subject = json_extract(wanted.value, '$[0]') AND seq = json_extract(wanted.value, '$[1]')
