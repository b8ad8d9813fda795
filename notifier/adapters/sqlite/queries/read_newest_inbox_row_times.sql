-- Opening time of each subject's newest row in an inbox window of a range. Only rows that opened at or before a given
-- time count. The newest comes first; subjects without rows come last, with NULL.
SELECT
    (
        SELECT max(opened_at)
        FROM inbox
        WHERE member_range = ?2 AND inbox_window = ?3 AND subject = wanted.value AND opened_at <= ?4
    ) AS newest,
    wanted.value
FROM json_each(?1) AS wanted
ORDER BY newest DESC
