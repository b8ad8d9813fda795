-- Moves the end of a claim that is still the caller's, and says how far the work is.
UPDATE claims
SET until = ?, reached = ?
WHERE subject = ? AND seq = ? AND slice = ? AND owner = ? AND attempt = ?
