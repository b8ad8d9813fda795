-- Joins bursts into the lists of one part of the pull index. May be run twice.
--
-- KEYS[1]  the part: a hash of packed lists, the epoch, `since` and `as_of`
-- ARGV[1]  how many bursts a list keeps
-- ARGV[2]  in a rebuild the epoch that was planted before the bursts were read from the store, as it stands in the part
-- then, any number of times: subject; in a rebuild the moment since when the bursts given are all there are, '' for
--          announcements; n; and n times seq, opened_at, the seqs without a gap
--
-- Returns garbage; 0 when something was lost since the epoch of a rebuild was planted, otherwise 1.
--
-- A list is packed as doubles: complete since, first seq, openings. It claims to hold every burst of its subject that
-- opened at or after `since`. In a rebuild, whose pages come newest first, `since` is where its page ended, with a
-- fraction of a millisecond: a page with older ones of the subject, or the settling at the end, takes it further back.
-- opened_at rises with seq, and a re-stamp only moves it forward, so of two the later stands.

local kept = tonumber(ARGV[1])
local proven = tonumber(get('since') or nil)
local NOTHING = math.huge

local function read(subject)
  local found = garbage
  local packed = get(subject)
  if garbage > found then proven = nil end
  if not packed then return nil end
  local list = {opened = {}}
  list.since, list.first = struct.unpack('<dd', packed)
  for at = 17, #packed, 8 do
    list.opened[#list.opened + 1] = struct.unpack('<d', packed, at)
  end
  return list
end

local function write(subject, list)
  local from = math.max(1, #list.opened - kept + 1)
  local packed = {'', struct.pack('<d', list.first + from - 1)}
  for i = 1, #list.opened do
    if i < from then
      list.since = math.max(list.since, list.opened[i] + 1)
    else
      packed[#packed + 1] = struct.pack('<d', list.opened[i])
    end
  end
  packed[1] = struct.pack('<d', list.since)
  put(subject, table.concat(packed))
end

local function last(list) return list.first + #list.opened - 1 end

local function join(one, other)
  local low, high = one, other
  if other.first < one.first then low, high = other, one end
  if high.first > last(low) + 1 then
    -- Not the low ones, nor what is missing between: the high list may claim only what is younger than both.
    -- Nor may a rebuild that comes to its end take it further back (huge has no whole number above).
    for _, opened in ipairs(low.opened) do high.since = math.max(high.since, opened + 1) end
    if high.since ~= NOTHING then high.since = math.ceil(high.since) end
    return high
  end
  for i, opened in ipairs(high.opened) do
    local place = high.first - low.first + i
    low.opened[place] = math.max(low.opened[place] or 0, opened)
  end
  low.since = math.min(low.since, high.since)
  return low
end

local function rebuild(subject, given, whole)
  local list = read(subject)
  if garbage > 0 then return end
  given.since = whole
  if not list then return write(subject, given) end
  -- Begun without proof of what came before it: the bursts given are that proof.
  if list.since == NOTHING then list.since = list.opened[1] end
  -- Between an older page and the list a burst is missing, which isn't readable yet: its time is anywhere in between.
  if list.first > last(given) + 1 then list.since = math.floor(math.max(list.since, list.opened[1])) end
  write(subject, join(list, given))
end

local function announce(subject, given)
  local list = read(subject)
  local opened = given.opened[1]
  if not list then
    -- Older than what the part proves: the subject's list was swept, and this is a late repeat.
    if proven and opened < proven then return end
    given.since = not proven and NOTHING or given.first == 1 and 0 or proven
    return write(subject, given)
  end
  if given.first > last(list) + 1 then
    -- What is missing was never announced, and maybe not this subject's alone: the part counts as absent until rebuilt.
    redis.call('HDEL', part, 'epoch', 'since')
    proven = nil
  end
  -- A list that proves nothing can't begin to by what comes behind it.
  given.since = list.since == NOTHING and NOTHING or given.first == 1 and 0 or opened
  write(subject, join(list, given))
end

if ARGV[4] ~= '' and redis.call('HGET', part, 'epoch') ~= ARGV[2] then return {garbage, 0} end

local at = 3
while at <= #ARGV do
  local subject, whole, n = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local given = {first = tonumber(ARGV[at + 3]), opened = {}}
  for i = 1, n do
    given.opened[i] = tonumber(ARGV[at + 2 + 2 * i])
    if not whole then announce(subject, {first = given.first + i - 1, opened = {given.opened[i]}}) end
  end
  if whole then
    rebuild(subject, given, whole)
    -- What the rebuild has joined so far went with the part.
    if garbage > 0 then return {garbage, 0} end
  end
  at = at + 3 + 2 * n
end
return {garbage, 1}
