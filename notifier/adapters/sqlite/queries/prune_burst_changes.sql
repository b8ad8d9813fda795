-- Deletes all but the newest rows, in steps of :together rows. Between two steps no row is old enough; reading the
-- first row is then enough to find that out.
DELETE FROM burst_changes
WHERE id <= (SELECT max(id) / :together * :together FROM burst_changes) - :kept
