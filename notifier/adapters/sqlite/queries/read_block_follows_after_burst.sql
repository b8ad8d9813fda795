-- Block follows of a shard that began after the burst opened.
SELECT block, members FROM follows
WHERE subject = :subject AND block / 128 = :shard AND visible_from > :opened_at AND slot = 1024
