-- Declares one part of the pull index compared with the store, unless something was lost since its epoch was planted.
--
-- KEYS[1]  the part
-- ARGV[1]  the epoch that was planted before the bursts were read from the store, as it stands in the part
-- ARGV[2]  after a rebuild the moment, in milliseconds, since when they are all in the lists; '' leaves it as it is
-- ARGV[3]  the moment, in milliseconds, at which they were readable in the store
-- Returns garbage; 1, or 0 when the part was wiped or found to have a gap or garbage meanwhile, or was never complete.

if redis.call('HGET', part, 'epoch') ~= ARGV[1] then return {garbage, 0} end
if ARGV[2] ~= '' then
  put('since', ARGV[2])
elseif not get('since') then
  return {garbage, 0}
end
-- The last word stands, also where it is the earlier moment: it claims less, and after the clock was set back it is right.
put('as_of', ARGV[3])
return {garbage, 1}
