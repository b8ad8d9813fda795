-- Members of a shard whose own row says that they followed before the burst opened.
SELECT block * 1024 + slot FROM follows
WHERE subject = :subject AND block / 128 = :shard AND visible_from <= :opened_at AND slot < 1024
