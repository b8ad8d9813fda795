-- Keeps what each of several said, for a while by the server's own clock, and answers the highest of it.
--
-- KEYS[1]  a hash: of each the moment, in milliseconds, until which its word counts, and the word
-- ARGV[1]  who says something; '' only asks
-- ARGV[2]  the word, a whole number
-- ARGV[3]  milliseconds for which it counts
-- Returns garbage; the highest word that counts, or nothing. What counts no more is swept, and so is garbage.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
if ARGV[1] ~= '' then
  local said = string.format('%.0f %s', now + tonumber(ARGV[3]), ARGV[2])
  redis.call('HSET', KEYS[1], ARGV[1], wrap(ARGV[1], said))
  redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[3])))
end
local highest = false
local said = redis.call('HGETALL', KEYS[1])
for at = 1, #said, 2 do
  local till, word = string.match(unwrap(said[at], said[at + 1]) or '', '^(%d+) (%d+)$')
  if not till or tonumber(till) <= now then
    redis.call('HDEL', KEYS[1], said[at])
  else
    highest = math.max(highest or 0, tonumber(word))
  end
end
return {garbage, highest}
