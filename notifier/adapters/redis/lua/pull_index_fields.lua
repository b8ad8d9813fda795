-- Access to the fields of one part of the pull index. Precedes the scripts of the pull index; checksum.lua precedes it.
--
-- A part with garbage in one field proves nothing: the list in that field is lost, and without a list the part would
-- claim that its subject has no bursts. So the whole part is deleted, as if it had been wiped.

local part = KEYS[1]

local function get(field)
  local before = garbage
  local value = unwrap(field, redis.call('HGET', part, field))
  if garbage > before then redis.call('UNLINK', part) end
  return value
end

local function put(field, value) redis.call('HSET', part, field, wrap(field, value)) end

