-- Settles lists of a complete part: those begun without proof or proven so far as a rebuild had come, and sweeps old ones.
--
-- KEYS[1]    the part
-- ARGV[1..]  subjects
-- A list whose newest burst opened before `since` says no more than having no list. A list that began in the meantime,
-- and that the rebuild knew nothing of, begins at `since`: the store had none of the subject from there on. So does one
-- that is complete since a page of the rebuild (with a fraction of a millisecond): no later page had anything to add.
-- Returns garbage; 1, or 0 when the part isn't complete, or no more because garbage was found.

local proven = tonumber(get('since') or nil)
if not proven then return {garbage, 0} end
for _, subject in ipairs(ARGV) do
  local packed = get(subject)
  if garbage > 0 then return {garbage, 0} end
  if packed and struct.unpack('<d', packed, #packed - 7) < proven then
    redis.call('HDEL', part, subject)
  elseif packed then
    local since = struct.unpack('<d', packed)
    if since == math.huge or since ~= math.floor(since) then
      put(subject, struct.pack('<d', proven) .. string.sub(packed, 9))
    end
  end
end
return {garbage, 1}
