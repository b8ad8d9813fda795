-- Deletes rows of bursts that opened at or before seen_at. Digests are not in the table of bursts. A digest is deleted
-- if its date is more than two days before seen_at: that date is over in every time zone.
DELETE FROM also_seen
WHERE member = :member AND ((subject, seq) IN (
    SELECT bursts.subject, bursts.seq
    FROM also_seen
    JOIN seen USING (member)
    JOIN bursts ON bursts.subject = also_seen.subject AND bursts.seq = also_seen.seq
    WHERE also_seen.member = :member AND bursts.opened_at <= seen.seen_at
) OR (subject >= 'digest:' AND subject < 'digest;' AND seq < (
    SELECT CAST(strftime('%Y%m%d', seen_at / 1000 - 2 * 86400, 'unixepoch') AS INTEGER) FROM seen WHERE member = :member
)))
