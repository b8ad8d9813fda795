-- Current or last owner of each of these partitions in a group.
SELECT partition, owner, epoch, until
FROM partition_leases
WHERE consumer_group = ? AND partition IN (SELECT value FROM json_each(?))
