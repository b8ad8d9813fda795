-- Writes a ledger entry once. A row count of 0 means that the entry existed.
INSERT OR IGNORE INTO slices (subject, seq, slice, fact, number, at, people, rows, phones, note)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
