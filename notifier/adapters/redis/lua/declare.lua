-- Declares one part of the pull index compared with the store, unless something was lost since its epoch was planted.
--
-- KEYS[1]  the part
-- ARGV[1]  the epoch that was planted before the bursts were read from the store
-- ARGV[2]  after a rebuild the moment, in milliseconds, since when they are all in the lists; '' leaves it as it is
-- ARGV[3]  the moment, in milliseconds, at which they were readable in the store
-- Returns 1, or 0 when the part was wiped or found to have a gap meanwhile, or was never complete.

if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then return 0 end
if ARGV[2] ~= '' then
  redis.call('HSET', KEYS[1], 'since', ARGV[2])
elseif redis.call('HEXISTS', KEYS[1], 'since') == 0 then
  return 0
end
-- The last word stands, also where it is the earlier moment: it claims less, and after the clock was set back it is right.
redis.call('HSET', KEYS[1], 'as_of', ARGV[3])
return 1
