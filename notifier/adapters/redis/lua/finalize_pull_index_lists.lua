-- Sets the final `since` of the lists of a complete part, and deletes old lists.
--
-- KEYS[1]    the part
-- ARGV[1..]  subjects
-- A list whose newest burst opened before the part's `since` is deleted. A missing list claims the same: the subject
-- has no burst since then.
-- Two kinds of lists are complete from the part's `since` on, and get it as their own:
--  - a list that an announcement created without a `since`: the rebuild found no other burst of the subject;
--  - a list from a page of the rebuild, whose `since` has a fraction of a millisecond: no later page had more of its
--    bursts.
-- Returns the count of garbage, and 1; or 0 if the part is not complete or has garbage.

local part_since = tonumber(get('since') or nil)
if not part_since then return {garbage, 0} end
for _, subject in ipairs(ARGV) do
  local packed = get(subject)
  if garbage > 0 then return {garbage, 0} end
  if packed and struct.unpack('<d', packed, #packed - 7) < part_since then
    redis.call('HDEL', part, subject)
  elseif packed then
    local since = struct.unpack('<d', packed)
    if since == math.huge or since ~= math.floor(since) then
      put(subject, struct.pack('<d', part_since) .. string.sub(packed, 9))
    end
  end
end
return {garbage, 1}
