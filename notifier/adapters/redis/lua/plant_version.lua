-- Gives scopes of viewers' facts a version, unless they have one or are being changed. Anything else in its place goes.
--
-- KEYS     the scopes' versions
-- ARGV[1]  the version
-- ARGV[2]  milliseconds for which it is kept
-- Returns what each scope has now.

local found = {}
for at, key in ipairs(KEYS) do
  local value = redis.call('TYPE', key).ok == 'string' and redis.call('GET', key) or ''
  if not string.match(value, '^[~=][%w,-]+$') then
    value = '=' .. ARGV[1]
    redis.call('SET', key, value, 'PX', ARGV[2])
  end
  found[at] = value
end
return found
