-- Stores one number per reporter with an expiry by the server's clock, and returns the highest current number.
--
-- KEYS[1]  a hash: per reporter, the expiry time in milliseconds and the number
-- ARGV[1]  the reporter; '' only reads
-- ARGV[2]  the number, an integer
-- ARGV[3]  TTL of the number in milliseconds
-- Returns the count of garbage, and the highest unexpired number, or false. Expired numbers and garbage are deleted.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
if ARGV[1] ~= '' then
  local entry = string.format('%.0f %s', now + tonumber(ARGV[3]), ARGV[2])
  redis.call('HSET', KEYS[1], ARGV[1], wrap(ARGV[1], entry))
  redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[3])))
end
local highest = false
local stored = redis.call('HGETALL', KEYS[1])
for at = 1, #stored, 2 do
  local expires_at, number = string.match(unwrap(stored[at], stored[at + 1]) or '', '^(%d+) (%d+)$')
  if not expires_at or tonumber(expires_at) <= now then
    redis.call('HDEL', KEYS[1], stored[at])
  else
    highest = math.max(highest or 0, tonumber(number))
  end
end
return {garbage, highest}
