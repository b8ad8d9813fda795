-- Deletes the oldest records of a partition, up to the lowest commit of all groups that ever read it. A group that
-- holds the partition without a commit keeps all records, and so does the absence of any group. Only the oldest few
-- are checked: appends wait meanwhile, and that wait must not grow with the log.
DELETE FROM records
WHERE partition = :partition AND offset IN (
    SELECT offset
    FROM (SELECT offset, appended_at FROM records WHERE partition = :partition ORDER BY offset LIMIT :limit)
    WHERE appended_at < :before
      AND offset <= (
          SELECT min(coalesce(committed_offsets.offset, -1))
          FROM partition_leases
          LEFT JOIN committed_offsets USING (consumer_group, partition)
          WHERE partition_leases.partition = :partition
      )
)
