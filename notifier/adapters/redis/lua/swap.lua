-- Sets fields of a hash, each only if it still is as it was read.
--
-- KEYS[1]  the hash
-- ARGV[1]  milliseconds for which it is kept, from now on
-- then, any number of times: field; what it was, '' for none; what it is to be
-- Returns 0; the fields that had changed in between, and were left alone.

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
