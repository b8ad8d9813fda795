-- Takes one token from a bucket that fills up by the server's own clock.
--
-- KEYS[1]  the bucket: the tokens left and the moment they were counted, in milliseconds
-- ARGV[1]  capacity
-- ARGV[2]  milliseconds after which one more token comes
-- Returns garbage; 1 when a token was taken, 0 when none is left. A bucket that is full again is forgotten.

local capacity, refill = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + tonumber(time[2]) / 1000
local held, at = string.match(unwrap('', redis.call('GET', KEYS[1])) or '', '^(%S+) (%S+)$')
local tokens = tonumber(held) or capacity
-- The clock may have been set back: then nothing was refilled.
tokens = math.min(capacity, tokens + math.max(0, now - (tonumber(at) or now)) / refill)
if tokens < 1 then return {garbage, 0} end
local left = string.format('%s %.3f', tokens - 1, now)
redis.call('SET', KEYS[1], wrap('', left), 'PX', math.ceil(capacity * refill))
return {garbage, 1}
