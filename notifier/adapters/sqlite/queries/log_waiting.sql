-- Oldest records of a partition after a position and after a group's commit. A group without a commit gets all
-- records.
SELECT offset, key, value
FROM records
WHERE partition = :partition
  AND offset > max(
    :behind,
    coalesce((SELECT offset FROM commits WHERE consumer_group = :group AND partition = :partition), -1)
  )
ORDER BY offset
LIMIT :most
