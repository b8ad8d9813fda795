-- Extends or shortens a claim that the caller still owns, and records its progress.
UPDATE claims
SET until = ?, reached = ?
WHERE subject = ? AND seq = ? AND slice = ? AND owner = ? AND attempt = ?
