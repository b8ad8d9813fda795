-- Plans of a JSON list of [subject, seq].
SELECT plans.blob
FROM json_each(?) AS wanted
CROSS JOIN plans
    ON subject = json_extract(wanted.value, '$[0]') AND seq = json_extract(wanted.value, '$[1]')
