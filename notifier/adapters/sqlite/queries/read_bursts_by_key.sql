-- Bursts of a JSON list of [subject, seq].
SELECT bursts.blob
FROM json_each(?) AS wanted
CROSS JOIN bursts
    ON subject = json_extract(wanted.value, '$[0]') AND seq = json_extract(wanted.value, '$[1]')
