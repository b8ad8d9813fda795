-- Extends or shortens a claim, and records its progress, if the caller still owns the claim.
UPDATE claims
SET until = ?, reached = ?
WHERE subject = ? AND seq = ? AND slice = ? AND owner = ? AND attempt = ?
