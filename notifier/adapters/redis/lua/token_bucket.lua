-- Takes tokens from a bucket that refills by the server's clock, as in domain/token_bucket.py.
--
-- KEYS[1]  the bucket: the tokens left and the time they were counted, in milliseconds
-- ARGV[1]  capacity
-- ARGV[2]  milliseconds in which one token is refilled
-- ARGV[3]  number of tokens to take
-- ARGV[4]  maximum debt: with 0, tokens are taken only if the bucket holds all of them; otherwise they are always
--          taken, and the part that exceeds the debt is forgiven
-- Returns the count of garbage, and the tokens left, or false if none were taken. The tokens are text, because a
-- number would lose its fraction. A bucket that is full again expires.

local capacity, refill, count, debt = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + tonumber(time[2]) / 1000
local stored_tokens, at = string.match(unwrap('', redis.call('GET', KEYS[1])) or '', '^(%S+) (%S+)$')
local tokens = tonumber(stored_tokens) or capacity
-- No refill if the clock was set back.
tokens = math.min(capacity, tokens + math.max(0, now - (tonumber(at) or now)) / refill)
if debt == 0 and tokens < count then return {garbage, false} end
tokens = math.max(-debt, tokens - count)
local left = string.format('%s %.3f', tokens, now)
redis.call('SET', KEYS[1], wrap('', left), 'PX', math.ceil((capacity - tokens) * refill) + 1)
return {garbage, tostring(tokens)}
