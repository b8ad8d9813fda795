-- Records of these partitions after the group's commit. Offsets have no gaps.
SELECT coalesce(sum(ends.next_offset - 1 - coalesce(commits.offset, -1)), 0)
FROM ends
LEFT JOIN commits ON commits.consumer_group = ? AND commits.partition = ends.partition
WHERE ends.partition IN (SELECT value FROM json_each(?))
