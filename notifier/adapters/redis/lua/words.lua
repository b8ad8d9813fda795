-- Stores one value per name with an expiry by the server's clock, and returns all current values.
--
-- KEYS[1]  a hash: per name, the expiry time in milliseconds and the value
-- ARGV[1]  the name; '' only reads
-- ARGV[2]  the value, any bytes
-- ARGV[3]  TTL of the value in milliseconds
-- Returns the count of garbage, and names and unexpired values in turn. Expired values and garbage are deleted.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
if ARGV[1] ~= '' then
  local said = string.format('%.0f ', now + tonumber(ARGV[3])) .. ARGV[2]
  redis.call('HSET', KEYS[1], ARGV[1], wrap(ARGV[1], said))
  redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[3])))
end
local counting = {}
local said = redis.call('HGETALL', KEYS[1])
for at = 1, #said, 2 do
  local word = unwrap(said[at], said[at + 1]) or ''
  local till, from = string.match(word, '^(%d+) ()')
  if not till or tonumber(till) <= now then
    redis.call('HDEL', KEYS[1], said[at])
  else
    table.insert(counting, said[at])
    table.insert(counting, string.sub(word, from))
  end
end
return {garbage, counting}
