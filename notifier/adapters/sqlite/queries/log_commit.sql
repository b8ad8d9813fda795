-- Advances a group's committed offset, never back, and only for the consumer that holds the partition in this epoch.
INSERT INTO commits (consumer_group, partition, offset)
SELECT :group, :partition, :offset
WHERE EXISTS (
    SELECT 1 FROM holds
    WHERE consumer_group = :group AND partition = :partition AND owner = :owner AND epoch = :epoch
)
ON CONFLICT (consumer_group, partition) DO UPDATE SET offset = excluded.offset WHERE excluded.offset > offset
