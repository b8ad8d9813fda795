-- Next ranges with rows, from a given range on. The second column tells whether the range has rows of expired inbox
-- windows. Each step jumps to the next range.
WITH RECURSIVE ranges (member_range) AS (
    SELECT min(member_range) FROM inbox WHERE member_range >= :start
    UNION ALL
    SELECT (SELECT min(inbox.member_range) FROM inbox WHERE inbox.member_range > ranges.member_range)
    FROM ranges
    WHERE ranges.member_range IS NOT NULL
    LIMIT :ranges
)
SELECT
    member_range,
    EXISTS (
        SELECT 1 FROM inbox WHERE inbox.member_range = ranges.member_range AND inbox_window < :first_kept_window
    )
FROM ranges
WHERE member_range IS NOT NULL
