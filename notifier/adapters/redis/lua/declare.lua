-- Declares one part of the pull index complete, unless something was lost since its epoch was planted.
--
-- KEYS[1]  the part
-- ARGV[1]  the epoch that was planted before the bursts were read from the store
-- ARGV[2]  the moment, in milliseconds, since when they are all in the lists
-- Returns 1, or 0 when the part was wiped or found to have a gap meanwhile.

if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'since', ARGV[2])
return 1
