-- Drops the oldest records of a partition that every group which ever read it has committed.
-- A group that holds the partition and has committed nothing keeps all of it; so does the absence of any group.
-- Only the oldest few are looked at: appends wait meanwhile, and must not wait longer the longer the log is.
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
