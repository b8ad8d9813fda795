-- Deletes a key that holds garbage. A key that was repaired in the meantime is kept.
--
-- KEYS[1]  the key
-- ARGV[1]  the type that the key must have
-- then, repeated: the field, '' for a string; the SHA-1 of the garbage in it
-- Returns an array: the number of deleted keys, 0 or 1.

local type = redis.call('TYPE', KEYS[1]).ok
local garbled = type ~= 'none' and type ~= ARGV[1]
for at = 2, #ARGV, 2 do
  if type == ARGV[1] then
    local stored = type == 'hash' and redis.call('HGET', KEYS[1], ARGV[at]) or type == 'string' and redis.call('GET', KEYS[1])
    garbled = garbled or stored and redis.sha1hex(stored) == ARGV[at + 1]
  end
end
if garbled then redis.call('UNLINK', KEYS[1]) end
return {garbled and 1 or 0}
