-- Members of a shard who follow by a row of their own since before a burst's opening.
SELECT block * 1024 + slot FROM follows
WHERE subject = :subject AND block / 128 = :shard AND visible_from <= :opened_at AND slot < 1024
