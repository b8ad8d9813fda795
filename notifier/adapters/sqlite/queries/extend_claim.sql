-- Moves the end of a claim that is still the caller's.
UPDATE claims
SET until = ?
WHERE subject = ? AND seq = ? AND slice = ? AND owner = ? AND attempt = ?
