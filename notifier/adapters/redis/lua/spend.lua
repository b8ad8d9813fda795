-- Takes from a bucket what was given away already, by the server's own clock.
--
-- KEYS[1]  the bucket, as in take.lua
-- ARGV[1]  capacity
-- ARGV[2]  milliseconds after which one more token comes
-- ARGV[3]  how many were given away
-- Returns garbage; the tokens left, as text: a number would lose its fraction. Below nothing where several gave away the
-- same ones, down to an empty bucket as deep as a full one is high. A bucket that is full again is forgotten.

local capacity, refill, spent = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + tonumber(time[2]) / 1000
local held, at = string.match(unwrap('', redis.call('GET', KEYS[1])) or '', '^(%S+) (%S+)$')
local tokens = tonumber(held) or capacity
-- The clock may have been set back: then nothing was refilled.
tokens = math.min(capacity, tokens + math.max(0, now - (tonumber(at) or now)) / refill)
tokens = math.max(-capacity, tokens - spent)
local left = string.format('%s %.3f', tokens, now)
redis.call('SET', KEYS[1], wrap('', left), 'PX', math.ceil((capacity - tokens) * refill) + 1)
return {garbage, tostring(tokens)}
