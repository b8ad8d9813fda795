-- Bursts that seen_at has reached by now need no entry of their own.
DELETE FROM seen_newer
WHERE member = :member AND (subject, seq) IN (
    SELECT bursts.subject, bursts.seq
    FROM seen_newer
    JOIN seen USING (member)
    JOIN bursts ON bursts.subject = seen_newer.subject AND bursts.seq = seen_newer.seq
    WHERE seen_newer.member = :member AND bursts.opened_at <= seen.seen_at
)
