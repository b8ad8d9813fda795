-- Deletes the oldest records of a partition, up to the lowest commit of all groups that ever read it. A group that
-- holds the partition without a commit keeps all records, and so does the absence of any group. Only the oldest few
-- are checked: appends wait meanwhile, and that wait must not grow with the log.
DELETE FROM records
WHERE partition = :partition AND offset IN (
    SELECT offset
    FROM (SELECT offset, appended_at FROM records WHERE partition = :partition ORDER BY offset LIMIT :most)
    WHERE appended_at < :before
      AND offset <= (
          SELECT min(coalesce(commits.offset, -1))
          FROM holds
          LEFT JOIN commits ON commits.consumer_group = holds.consumer_group AND commits.partition = holds.partition
          WHERE holds.partition = :partition
      )
)
