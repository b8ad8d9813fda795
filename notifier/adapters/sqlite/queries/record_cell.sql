-- A cell of the ledger is written once; a row count of 0 says that it was there.
INSERT OR IGNORE INTO slices (subject, seq, slice, fact, n, at, people, rows, phones, note)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
