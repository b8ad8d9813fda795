-- Deletes records appended before :before, up to the lowest commit of all groups that ever read the partition. If one
-- of these groups has no commit, or no group has ever read the partition, all records are kept. The statement checks
-- only the oldest :limit records: appends wait for it, and their wait must not grow with the log.
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
