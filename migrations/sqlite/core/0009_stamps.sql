-- core.db: of two writers of a bitmap or a head the one with the later stamp stands; what was loaded has none.

ALTER TABLE member_sets ADD COLUMN stamp INTEGER NOT NULL DEFAULT 0;
ALTER TABLE set_heads ADD COLUMN stamp INTEGER NOT NULL DEFAULT 0;
