-- Reads the activity bitmaps of several shards for one hour, as written by record_activity.lua.
--
-- KEYS[1]    the bitmaps of adjacent shards
-- ARGV[1]    size of a shard's bitmap in bytes
-- ARGV[2..]  positions of the shards within the key
-- Returns the count of garbage, which is deleted, and the bitmaps. A bitmap is cut off where the stored value ends.

local header, size = checksum('', ''), tonumber(ARGV[1])
local stored = redis.call('GETRANGE', KEYS[1], 0, #header - 1)
if stored ~= header and redis.call('EXISTS', KEYS[1]) == 1 then
  garbage = 1
  redis.call('UNLINK', KEYS[1])
end
local bitmaps = {}
for at = 2, #ARGV do
  local first = #header + tonumber(ARGV[at]) * size
  bitmaps[at - 1] = redis.call('GETRANGE', KEYS[1], first, first + size - 1)
end
return {garbage, bitmaps}
