-- Sets bits of a bitmap, and says when it is forgotten: a command for each of them would cost the client ten times as much.
--
-- KEYS[1]  the bitmaps of some shards in one hour, behind a header by which they are known from garbage
-- ARGV[1]  the places, each as four bytes, the lowest first
-- ARGV[2]  milliseconds for which it is kept, from now on
-- Returns garbage, which is replaced.

local header = checksum('', '')
local bits = 8 * #header
local held = redis.call('GETRANGE', KEYS[1], 0, #header - 1)
if held ~= header then
  if held ~= '' then garbage = 1 end
  redis.call('SET', KEYS[1], header)
end
for first = 1, #ARGV[1], 4 do
  redis.call('SETBIT', KEYS[1], bits + struct.unpack('<I4', ARGV[1], first), 1)
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {garbage}
