-- Sets each field of a hash only if it still has the value that was read.
--
-- KEYS[1]  the hash
-- ARGV[1]  TTL in milliseconds, from now on
-- then, repeated: the field; the expected value, '' if absent; the new value
-- Returns 0 (no garbage), and the fields that had changed since they were read, which are left unchanged.

local changed = {}
for at = 2, #ARGV, 3 do
  if (redis.call('HGET', KEYS[1], ARGV[at]) or '') == ARGV[at + 1] then
    redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 2])
  else
    changed[#changed + 1] = ARGV[at]
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return {0, changed}
