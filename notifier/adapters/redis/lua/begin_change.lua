-- Marks scopes of viewers' facts as changing.
--
-- KEYS     the scopes' versions
-- ARGV[1]  the name of the change
-- ARGV[2]  milliseconds for which a change that never finishes is remembered

for _, key in ipairs(KEYS) do
  local value = redis.call('TYPE', key).ok == 'string' and redis.call('GET', key) or ''
  local marks = string.sub(value, 1, 1) == '~' and value or '~'
  local mark = ARGV[1] .. ','
  if not string.find(marks, mark, 1, true) then marks = marks .. mark end
  redis.call('SET', key, marks, 'PX', ARGV[2])
end
return #KEYS
