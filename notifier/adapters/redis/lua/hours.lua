-- Reads the bitmaps of some shards of one hour, as touch.lua writes them.
--
-- KEYS[1]    the bitmaps of neighbours
-- ARGV[1]    bytes of a shard's bitmap
-- ARGV[2..]  the shards, each by its number among the neighbours
-- Returns garbage, which is deleted; the bitmaps, each without the zeros at its end that were never written.

local header, size = checksum('', ''), tonumber(ARGV[1])
local held = redis.call('GETRANGE', KEYS[1], 0, #header - 1)
if held ~= header and redis.call('EXISTS', KEYS[1]) == 1 then
  garbage = 1
  redis.call('UNLINK', KEYS[1])
end
local bitmaps = {}
for at = 2, #ARGV do
  local first = #header + tonumber(ARGV[at]) * size
  bitmaps[at - 1] = redis.call('GETRANGE', KEYS[1], first, first + size - 1)
end
return {garbage, bitmaps}
