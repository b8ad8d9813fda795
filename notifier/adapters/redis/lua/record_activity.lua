-- Sets bits of a bitmap and its TTL. One command per bit would cost the client ten times as much.
--
-- KEYS[1]  the bitmaps of adjacent shards in one hour, after a header that distinguishes them from garbage
-- ARGV[1]  the bit positions, each as four bytes, little-endian
-- ARGV[2]  TTL in milliseconds, from now on
-- Returns an array: the count of garbage, which is replaced.

local header = checksum('', '')
local header_bits = 8 * #header
local stored = redis.call('GETRANGE', KEYS[1], 0, #header - 1)
if stored ~= header then
  if stored ~= '' then garbage = 1 end
  redis.call('SET', KEYS[1], header)
end
for first = 1, #ARGV[1], 4 do
  redis.call('SETBIT', KEYS[1], header_bits + struct.unpack('<I4', ARGV[1], first), 1)
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {garbage}
