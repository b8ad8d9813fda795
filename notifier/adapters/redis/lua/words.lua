-- Keeps what is said under each of several names, for a while by the server's own clock, and answers all that counts.
--
-- KEYS[1]  a hash: of each name the moment, in milliseconds, until which its word counts, and the word
-- ARGV[1]  the name; '' only asks
-- ARGV[2]  the word, any bytes
-- ARGV[3]  milliseconds for which it counts
-- Returns garbage; names and words in turn. What counts no more is swept, and so is garbage.

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
