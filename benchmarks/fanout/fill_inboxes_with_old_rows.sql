-- Old rows of one shard in the key's order: every range has the same ones.
INSERT INTO inbox
SELECT ranges.value, old.inbox_window, old.subject, old.opened_at, old.seq, 'p1', old.members
FROM json_each(:ranges) AS ranges
CROSS JOIN old
