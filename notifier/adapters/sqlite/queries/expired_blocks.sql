-- The next blocks from one on, and whether each has rows of an inbox window before the cut. Jumps from block to block.
WITH RECURSIVE blocks (block) AS (
    SELECT min(block) FROM inbox WHERE block >= :start
    UNION ALL
    SELECT (SELECT min(inbox.block) FROM inbox WHERE inbox.block > blocks.block)
    FROM blocks
    WHERE blocks.block IS NOT NULL
    LIMIT :blocks
)
SELECT block, EXISTS (SELECT 1 FROM inbox WHERE inbox.block = blocks.block AND inbox_window < :cut)
FROM blocks
WHERE block IS NOT NULL
