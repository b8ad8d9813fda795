-- Members of a shard that must not be alerted of a burst, by conditions that may have changed since the audience
-- snapshot. Block rows of follows, and account preferences, are read separately. Each branch reads one index range.
SELECT member FROM marks
WHERE subject = :subject AND seq = :seq AND member BETWEEN :first AND :last
UNION ALL
SELECT member FROM also_seen
WHERE subject = :subject AND seq = :seq AND member BETWEEN :first AND :last
UNION ALL
SELECT member FROM seen
WHERE member / 131072 = :shard AND seen_at >= :opened_at
UNION ALL
-- A user block hides the opener.
SELECT member FROM user_blocks
WHERE other_account = :opener AND member BETWEEN :first AND :last AND until = :never
UNION ALL
-- A user block hides the account, now or at the opening.
SELECT member FROM user_blocks
WHERE other_account = :owner AND member BETWEEN :first AND :last AND until > :opened_at
UNION ALL
-- Muted, or unmuted since the opening, or a lower volume.
SELECT block * 1024 + slot FROM subject_preferences
WHERE subject = :subject AND block / 128 = :shard AND slot < 1024
  AND (visible_from > :opened_at OR volume IN ('off', 'digest') OR (volume = 'first' AND NOT :first_of_day))
UNION ALL
-- Followed since the opening, or unfollowed.
SELECT block * 1024 + slot FROM follows
WHERE subject = :subject AND block / 128 = :shard AND visible_from > :opened_at AND slot < 1024
UNION ALL
-- The member's account is deleted.
SELECT member FROM users
WHERE deleted = 1 AND member BETWEEN :first AND :last
UNION ALL
-- Unfollowed the protected author.
SELECT block * 1024 + slot FROM follows
WHERE subject = :author AND block / 128 = :shard AND visible_from = :unfollowed AND slot < 1024
