-- Oldest records of a partition after an offset, and after the group's commit, if it has one.
SELECT offset, key, value
FROM records
WHERE partition = :partition
  AND offset > max(
    :after,
    coalesce((SELECT offset FROM committed_offsets WHERE consumer_group = :group AND partition = :partition), -1)
  )
ORDER BY offset
LIMIT :limit
