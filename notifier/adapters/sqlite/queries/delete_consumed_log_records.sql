-- Deletes records that were appended before :before and that every group has committed. The groups are those that ever
-- leased the partition; without such a group all records are kept. The statement checks only the oldest :limit records,
-- because appends wait for it.
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
