-- The oldest records of a partition behind a place and a group's commit; a group that never committed has all before it.
SELECT offset, key, value
FROM records
WHERE partition = :partition
  AND offset > max(
    :behind,
    coalesce((SELECT offset FROM commits WHERE consumer_group = :group AND partition = :partition), -1)
  )
ORDER BY offset
LIMIT :most
