-- Defers a burst. The earlier of two wake-up times applies: a needless wake-up is harmless.
INSERT INTO deferred_bursts (subject, seq, opened_at, until) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET until = min(until, excluded.until)
