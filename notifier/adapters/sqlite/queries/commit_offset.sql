-- Advances a group's committed offset, never back, and only for the consumer that owns the partition in this epoch.
INSERT INTO committed_offsets (consumer_group, partition, offset)
SELECT :group, :partition, :offset
WHERE EXISTS (
    SELECT 1 FROM partition_leases
    WHERE consumer_group = :group AND partition = :partition AND owner = :owner AND epoch = :epoch
)
ON CONFLICT (consumer_group, partition) DO UPDATE SET offset = excluded.offset WHERE excluded.offset > offset
