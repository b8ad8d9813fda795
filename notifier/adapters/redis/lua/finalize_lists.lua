-- Settles lists of a complete part: completes the claims of new or half rebuilt lists, and deletes old lists.
--
-- KEYS[1]    the part
-- ARGV[1..]  subjects
-- A list whose newest burst opened before `since` is deleted: a subject without a list claims the same.
-- Two kinds of lists become complete from `since` on:
--  - a list that was created during the rebuild without proof: the store had no other burst of the subject since then;
--  - a list from a page of the rebuild, marked by a fraction of a millisecond: no later page had more of its bursts.
-- Returns the count of garbage, and 1, or 0 if the part is not complete, or garbage was found.

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
