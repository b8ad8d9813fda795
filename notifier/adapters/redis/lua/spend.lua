-- Takes from a bucket what was given away already, by the server's own clock.
--
-- KEYS[1]  the bucket, as in take.lua
-- ARGV[1]  capacity
-- ARGV[2]  milliseconds after which one more token comes
-- ARGV[3]  how many were given away
-- Returns the tokens left, as text: a number would lose its fraction. Below nothing where several gave away the same
-- ones, down to an empty bucket as deep as a full one is high. A bucket that is full again is forgotten.

local capacity, refill, spent = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + tonumber(time[2]) / 1000
local held = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = tonumber(held[1]) or capacity
-- The clock may have been set back: then nothing was refilled.
tokens = math.min(capacity, tokens + math.max(0, now - (tonumber(held[2]) or now)) / refill)
tokens = math.max(-capacity, tokens - spent)
redis.call('HSET', KEYS[1], 'tokens', tostring(tokens), 'at', string.format('%.3f', now))
redis.call('PEXPIRE', KEYS[1], math.ceil((capacity - tokens) * refill) + 1)
return tostring(tokens)
