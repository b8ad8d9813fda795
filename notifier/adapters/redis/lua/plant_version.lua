-- Gives scopes of viewers' facts a version, unless they have one or are being changed. Anything else in its place goes.
--
-- KEYS     the scopes' versions
-- ARGV[1]  the version
-- ARGV[2]  milliseconds for which it is kept
-- Returns an array: how many scopes held garbage, and behind it what each has now.

local garbage, found = 0, {}
for at, key in ipairs(KEYS) do
  local kind = redis.call('TYPE', key).ok
  local value = kind == 'string' and redis.call('GET', key) or ''
  if not string.match(value, '^[~=][%w,-]+$') then
    if kind ~= 'none' then garbage = garbage + 1 end
    value = '=' .. ARGV[1]
    redis.call('SET', key, value, 'PX', ARGV[2])
  end
  found[at] = value
end
return {garbage, found}
