-- The higher rank under one retraction key wins, regardless of arrival order.
INSERT INTO retractions (trail, rank, blob) VALUES (?, ?, ?)
ON CONFLICT (trail) DO UPDATE SET rank = excluded.rank, blob = excluded.blob WHERE excluded.rank > rank
