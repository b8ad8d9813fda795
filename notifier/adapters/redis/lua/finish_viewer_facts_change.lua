-- Removes the placeholder of one change from scopes of viewers' facts. A key without another placeholder is deleted,
-- even if it has a version.
--
-- KEYS     version keys of the scopes
-- ARGV[1]  name of the change
-- ARGV[2]  TTL in milliseconds of the placeholders that are left
-- Returns an array: the number of scopes that held garbage.

local garbage = 0
for _, key in ipairs(KEYS) do
  local kind = redis.call('TYPE', key).ok
  local value = kind == 'string' and redis.call('GET', key) or ''
  if kind ~= 'none' and not string.match(value, '^[~=][%w,-]+$') then garbage = garbage + 1 end
  local left = '~'
  if string.sub(value, 1, 1) == '~' then
    for name in string.gmatch(string.sub(value, 2), '([^,]+),') do
      if name ~= ARGV[1] then left = left .. name .. ',' end
    end
  end
  if left == '~' then
    redis.call('DEL', key)
  else
    redis.call('SET', key, left, 'PX', ARGV[2])
  end
end
return {garbage}
