-- Records a comparison of one part of the pull index with the store, unless data was lost since its nonce was planted.
--
-- KEYS[1]  the part
-- ARGV[1]  the nonce planted before the bursts were read from the store, as stored in the part (with checksum)
-- ARGV[2]  the new `since`: the time in milliseconds since when the lists are complete; '' keeps the old one
-- ARGV[3]  the new `as_of`: the time in milliseconds at which the bursts were readable in the store
-- Returns the count of garbage, and 1, or 0 if the part was wiped, had a gap or garbage, or was never complete.

if redis.call('HGET', part, 'epoch') ~= ARGV[1] then return {garbage, 0} end
if ARGV[2] ~= '' then
  put('since', ARGV[2])
elseif not get('since') then
  return {garbage, 0}
end
-- The last write wins, even with an earlier time. That claims less, and is right after the clock was set back.
put('as_of', ARGV[3])
return {garbage, 1}
