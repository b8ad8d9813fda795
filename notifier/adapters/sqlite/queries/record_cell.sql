-- Writes a ledger cell once. A row count of 0 means that the cell existed.
INSERT OR IGNORE INTO slices (subject, seq, slice, fact, number, at, people, rows, phones, note)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
