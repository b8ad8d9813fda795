-- Adds the placeholder of one change to scopes of viewers' facts. A scope with a placeholder has no version.
--
-- KEYS     version keys of the scopes
-- ARGV[1]  name of the change
-- ARGV[2]  TTL in milliseconds of the placeholders
-- Returns an array: the number of scopes that held garbage.

local garbage = 0
for _, key in ipairs(KEYS) do
  local kind = redis.call('TYPE', key).ok
  local value = kind == 'string' and redis.call('GET', key) or ''
  if kind ~= 'none' and not string.match(value, '^[~=][%w,-]+$') then garbage = garbage + 1 end
  local placeholders = string.sub(value, 1, 1) == '~' and value or '~'
  local placeholder = ARGV[1] .. ','
  if not string.find(placeholders, placeholder, 1, true) then placeholders = placeholders .. placeholder end
  redis.call('SET', key, placeholders, 'PX', ARGV[2])
end
return {garbage}
