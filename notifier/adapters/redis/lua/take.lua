-- Takes one token from a bucket that fills up by the server's own clock.
--
-- KEYS[1]  the bucket: a hash of the tokens left and the moment they were counted, in milliseconds
-- ARGV[1]  capacity
-- ARGV[2]  milliseconds after which one more token comes
-- Returns 1 when a token was taken, 0 when none is left. A bucket that is full again is forgotten.

local capacity, refill = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + tonumber(time[2]) / 1000
local held = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = tonumber(held[1]) or capacity
-- The clock may have been set back: then nothing was refilled.
tokens = math.min(capacity, tokens + math.max(0, now - (tonumber(held[2]) or now)) / refill)
if tokens < 1 then return 0 end
redis.call('HSET', KEYS[1], 'tokens', tostring(tokens - 1), 'at', string.format('%.3f', now))
redis.call('PEXPIRE', KEYS[1], math.ceil(capacity * refill))
return 1
