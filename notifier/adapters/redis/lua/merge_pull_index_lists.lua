-- Merges bursts into the lists of one part of the pull index. Idempotent.
--
-- KEYS[1]  the part: a hash of packed lists, the nonce, `since` and `as_of`
-- ARGV[1]  maximum number of bursts in a list
-- ARGV[2]  in a rebuild, the nonce planted before the bursts were read from the store, as stored in the part
-- then, repeated: the subject; in a rebuild, the time since when the bursts are complete, otherwise ''; n; and n times
--          seq and opened_at, with consecutive seqs
--
-- Returns the count of garbage, and 0 if data was lost since the nonce of a rebuild was planted, otherwise 1.
--
-- A list is packed as doubles: complete since, first seq, opening times. It claims to hold every burst of its subject
-- that opened at or after `since`. A rebuild sends its pages newest first, usually with a provisional `since` that has
-- a fraction of a millisecond. An older page moves `since` back, or finalize_pull_index_lists.lua does.
-- opened_at rises with seq. A burst may be restamped to a later time, never to an earlier one, so the later value wins.

local max_length = tonumber(ARGV[1])
local part_since = tonumber(get('since') or nil)
local UNKNOWN = math.huge -- `since` of a list that proves nothing

local function read(subject)
  local before = garbage
  local packed = get(subject)
  if garbage > before then part_since = nil end
  if not packed then return nil end
  local list = {openings = {}}
  list.since, list.first = struct.unpack('<dd', packed)
  for at = 17, #packed, 8 do
    list.openings[#list.openings + 1] = struct.unpack('<d', packed, at)
  end
  return list
end

local function write(subject, list)
  local from = math.max(1, #list.openings - max_length + 1)
  local packed = {'', struct.pack('<d', list.first + from - 1)}
  for i = 1, #list.openings do
    if i < from then
      list.since = math.max(list.since, list.openings[i] + 1)
    else
      packed[#packed + 1] = struct.pack('<d', list.openings[i])
    end
  end
  packed[1] = struct.pack('<d', list.since)
  put(subject, table.concat(packed))
end

local function last(list) return list.first + #list.openings - 1 end

local function merge(a, b)
  local low, high = a, b
  if b.first < a.first then low, high = b, a end
  if high.first > last(low) + 1 then
    -- Drop the low list. Because of the gap, the high list may only claim bursts newer than the low list.
    -- Round `since` up, so that the end of a rebuild cannot move it back (math.huge cannot be rounded).
    for _, opened in ipairs(low.openings) do high.since = math.max(high.since, opened + 1) end
    if high.since ~= UNKNOWN then high.since = math.ceil(high.since) end
    return high
  end
  for i, opened in ipairs(high.openings) do
    local place = high.first - low.first + i
    low.openings[place] = math.max(low.openings[place] or 0, opened)
  end
  low.since = math.min(low.since, high.since)
  return low
end

local function rebuild(subject, incoming, since)
  local list = read(subject)
  if garbage > 0 then return end
  incoming.since = since
  if not list then return write(subject, incoming) end
  -- An announcement created the list without a proof. The rebuild proves that the list is complete from its start.
  if list.since == UNKNOWN then list.since = list.openings[1] end
  -- The bursts between the older page and the list are not readable yet, so the list is complete only from its start.
  if list.first > last(incoming) + 1 then list.since = math.floor(math.max(list.since, list.openings[1])) end
  write(subject, merge(list, incoming))
end

local function announce(subject, incoming)
  local list = read(subject)
  local opened = incoming.openings[1]
  if not list then
    -- The burst is older than the part's `since`: the subject's list was swept, and the announcement is a late repeat.
    if part_since and opened < part_since then return end
    incoming.since = not part_since and UNKNOWN or incoming.first == 1 and 0 or part_since
    return write(subject, incoming)
  end
  if incoming.first > last(list) + 1 then
    -- Bursts in the gap were never announced. Bursts of other subjects may be missing, too: invalidate the part until
    -- a rebuild.
    redis.call('HDEL', part, 'epoch', 'since')
    part_since = nil
  end
  -- An announced burst cannot complete a list whose `since` is unknown.
  incoming.since = list.since == UNKNOWN and UNKNOWN or incoming.first == 1 and 0 or opened
  write(subject, merge(list, incoming))
end

if ARGV[4] ~= '' and redis.call('HGET', part, 'epoch') ~= ARGV[2] then return {garbage, 0} end

local at = 3
while at <= #ARGV do
  local subject, since, n = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local incoming = {first = tonumber(ARGV[at + 3]), openings = {}}
  for i = 1, n do
    incoming.openings[i] = tonumber(ARGV[at + 2 + 2 * i])
    if not since then announce(subject, {first = incoming.first + i - 1, openings = {incoming.openings[i]}}) end
  end
  if since then
    rebuild(subject, incoming, since)
    -- Because of the garbage the part was deleted, with all bursts that the rebuild had merged.
    if garbage > 0 then return {garbage, 0} end
  end
  at = at + 3 + 2 * n
end
return {garbage, 1}
