-- All but the newest, in steps: between two steps nothing is old enough, which one look at the first row tells.
DELETE FROM burst_changes
WHERE id <= (SELECT max(id) / :together * :together FROM burst_changes) - :kept
