-- Of two moments that were said of a burst the earlier counts: to wake in vain is harmless.
INSERT INTO sleepers (subject, seq, opened_at, until) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET until = min(until, excluded.until)
