-- Deletes entries of bursts that seen_at has reached. Also deletes entries of digests, which are stored nowhere
-- else, once their date ended two days ago and is over in every time zone.
DELETE FROM seen_newer
WHERE member = :member AND ((subject, seq) IN (
    SELECT bursts.subject, bursts.seq
    FROM seen_newer
    JOIN seen USING (member)
    JOIN bursts ON bursts.subject = seen_newer.subject AND bursts.seq = seen_newer.seq
    WHERE seen_newer.member = :member AND bursts.opened_at <= seen.seen_at
) OR (subject >= 'digest:' AND subject < 'digest;' AND seq < (
    SELECT CAST(strftime('%Y%m%d', seen_at / 1000 - 2 * 86400, 'unixepoch') AS INTEGER) FROM seen WHERE member = :member
)))
