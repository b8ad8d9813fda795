-- Of two under one trail the higher rank stands, in whatever order they come.
INSERT INTO retractions (trail, rank, blob) VALUES (?, ?, ?)
ON CONFLICT (trail) DO UPDATE SET rank = excluded.rank, blob = excluded.blob WHERE excluded.rank > rank
