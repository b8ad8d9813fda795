-- Deletes all but the newest rows, in steps. Between two steps no row is old enough, which a look at the first row
-- shows.
DELETE FROM burst_changes
WHERE id <= (SELECT max(id) / :together * :together FROM burst_changes) - :kept
