-- core.db: finds the deleted accounts of a shard, whose phones are to stay silent.
-- Accounts that were deleted before are known by how notifier.codec packs `deleted` and true.

ALTER TABLE users ADD COLUMN deleted INTEGER NOT NULL DEFAULT 0;

UPDATE users SET deleted = 1 WHERE instr(account, x'A764656C65746564C3') > 0;

CREATE INDEX users_deleted ON users (member) WHERE deleted = 1;
