-- Drops the oldest records of a partition that every group which ever read it has committed.
-- A group that holds the partition and has committed nothing keeps all of it; so does the absence of any group.
DELETE FROM records
WHERE partition = :partition AND offset IN (
    SELECT offset FROM records
    WHERE partition = :partition
      AND appended_at < :before
      AND offset <= (
          SELECT min(coalesce(commits.offset, -1))
          FROM holds
          LEFT JOIN commits ON commits.consumer_group = holds.consumer_group AND commits.partition = holds.partition
          WHERE holds.partition = :partition
      )
    ORDER BY offset
    LIMIT :most
)
