-- core.db: finds the people of a shard who are to be spared a burst's alert, without reading the others.
-- A shard is 131,072 members, or 128 blocks.

CREATE INDEX marks_by_burst ON marks (subject, seq, member);

CREATE INDEX seen_newer_by_burst ON seen_newer (subject, seq, member);

CREATE INDEX seen_by_shard ON seen (member / 131072, seen_at);

CREATE INDEX blocks_by_other ON blocks (other, member);

CREATE INDEX wants_by_shard ON wants (subject, block / 128);

CREATE INDEX follows_by_shard ON follows (subject, block / 128, visible_from);
