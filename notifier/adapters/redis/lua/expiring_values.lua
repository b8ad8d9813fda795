-- Stores one value per name with an expiry by the server's clock, and returns all current values.
--
-- KEYS[1]  a hash: per name, the expiry time in milliseconds and the value
-- ARGV[1]  the name; '' only reads
-- ARGV[2]  the value, any bytes
-- ARGV[3]  TTL of the value in milliseconds
-- Returns the count of garbage, and each name with an unexpired value, followed by the value. Expired values and
-- garbage are deleted.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
if ARGV[1] ~= '' then
  local entry = string.format('%.0f ', now + tonumber(ARGV[3])) .. ARGV[2]
  redis.call('HSET', KEYS[1], ARGV[1], wrap(ARGV[1], entry))
  redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[3])))
end
local current = {}
local stored = redis.call('HGETALL', KEYS[1])
for at = 1, #stored, 2 do
  local entry = unwrap(stored[at], stored[at + 1]) or ''
  local expires_at, start = string.match(entry, '^(%d+) ()')
  if not expires_at or tonumber(expires_at) <= now then
    redis.call('HDEL', KEYS[1], stored[at])
  else
    table.insert(current, stored[at])
    table.insert(current, string.sub(entry, start))
  end
end
return {garbage, current}
