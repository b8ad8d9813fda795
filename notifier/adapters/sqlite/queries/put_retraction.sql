-- The higher rank under one retraction key wins, regardless of arrival order.
INSERT INTO retractions (retraction_key, rank, blob) VALUES (?, ?, ?)
ON CONFLICT (retraction_key) DO UPDATE SET rank = excluded.rank, blob = excluded.blob WHERE excluded.rank > rank
