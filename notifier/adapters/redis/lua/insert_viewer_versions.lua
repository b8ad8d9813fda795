-- Gives scopes of viewers' facts a version, unless they have one or are being changed. Garbage is replaced.
--
-- KEYS     version keys of the scopes
-- ARGV[1]  the version
-- ARGV[2]  TTL of the version in milliseconds
-- Returns an array: the number of scopes that held garbage, and an array of the current value of each scope.

local garbage, current = 0, {}
for at, key in ipairs(KEYS) do
  local kind = redis.call('TYPE', key).ok
  local value = kind == 'string' and redis.call('GET', key) or ''
  if not string.match(value, '^[~=][%w,-]+$') then
    if kind ~= 'none' then garbage = garbage + 1 end
    value = '=' .. ARGV[1]
    redis.call('SET', key, value, 'PX', ARGV[2])
  end
  current[at] = value
end
return {garbage, current}
