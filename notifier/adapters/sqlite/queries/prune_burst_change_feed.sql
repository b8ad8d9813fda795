-- Deletes old rows in groups of :rows_per_prune, and keeps at least the newest :kept_rows.
DELETE FROM burst_changes
WHERE id <= (SELECT max(id) / :rows_per_prune * :rows_per_prune FROM burst_changes) - :kept_rows
