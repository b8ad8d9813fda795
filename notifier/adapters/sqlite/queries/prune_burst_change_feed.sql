-- Deletes old rows in groups of :rows_per_prune, so that at least the newest :kept_rows stay.
DELETE FROM burst_changes
WHERE id <= (SELECT max(id) / :rows_per_prune * :rows_per_prune FROM burst_changes) - :kept_rows
