-- Number of records of these partitions after the group's commit. Offsets have no gaps.
SELECT coalesce(sum(next_offsets.next_offset - 1 - coalesce(committed_offsets.offset, -1)), 0)
FROM next_offsets
LEFT JOIN committed_offsets
    ON committed_offsets.consumer_group = ? AND committed_offsets.partition = next_offsets.partition
WHERE next_offsets.partition IN (SELECT value FROM json_each(?))
