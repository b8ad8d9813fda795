-- Commits an offset, unless a later one is committed, or another consumer has taken the partition in a newer epoch.
INSERT INTO committed_offsets (consumer_group, partition, offset)
SELECT :group, :partition, :offset
WHERE EXISTS (
    SELECT 1 FROM partition_leases
    WHERE consumer_group = :group AND partition = :partition AND owner = :owner AND epoch = :epoch
)
ON CONFLICT (consumer_group, partition) DO UPDATE SET offset = excluded.offset WHERE excluded.offset > offset
