-- core.db: of a pair the word with the highest sequence counts; those of before were never ordered, and any is later.

ALTER TABLE follows ADD COLUMN sequence INTEGER NOT NULL DEFAULT 0;
