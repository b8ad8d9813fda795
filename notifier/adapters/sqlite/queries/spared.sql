-- Members of a shard to whom a burst isn't pushable: whatever of the predicate can have changed since the seal.
-- Each branch is one range of an index of its own. Of wants it is all that were ever said of the subject.
SELECT member FROM marks
WHERE subject = :subject AND seq = :seq AND member BETWEEN :first AND :last
UNION ALL
SELECT member FROM seen_newer
WHERE subject = :subject AND seq = :seq AND member BETWEEN :first AND :last
UNION ALL
SELECT member FROM seen
WHERE member / 131072 = :shard AND seen_at >= :opened_at
UNION ALL
-- A block parts them from the opener.
SELECT member FROM partings
WHERE other = :opener AND member BETWEEN :first AND :last AND until = :never
UNION ALL
-- Or from the account, or did so at the opening.
SELECT member FROM partings
WHERE other = :owner AND member BETWEEN :first AND :last AND until > :opened_at
UNION ALL
-- Muted, or unmuted since the opening; wants less.
SELECT block * 1024 + slot FROM wants
WHERE subject = :subject AND block / 128 = :shard AND slot < 1024
  AND (visible_from > :opened_at OR volume IN ('off', 'digest') OR (volume = 'first' AND NOT :first_of_day))
UNION ALL
-- Followed since the opening; left.
SELECT block * 1024 + slot FROM follows
WHERE subject = :subject AND block / 128 = :shard AND visible_from > :opened_at AND slot < 1024
UNION ALL
-- Deleted the account.
SELECT member FROM users
WHERE deleted = 1 AND member BETWEEN :first AND :last
UNION ALL
-- Left the protected author.
SELECT block * 1024 + slot FROM follows
WHERE subject = :author AND block / 128 = :shard AND visible_from = :left AND slot < 1024
