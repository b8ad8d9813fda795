-- Checksum in front of a value, as in keys_checksums_lua_scripts.py. LuaScript.load puts this file in front of a script.

local garbage = 0

local function checksum(field, value)
  return string.sub(redis.sha1hex(KEYS[1] .. '\0' .. field .. '\0' .. value), 1, 8)
end

local function wrap(field, value) return checksum(field, value) .. value end

-- Returns nil for absent values and for garbage. Garbage is counted.
local function unwrap(field, stored)
  if not stored then return nil end
  local value = string.sub(stored, 9)
  if string.sub(stored, 1, 8) == checksum(field, value) then return value end
  garbage = garbage + 1
  return nil
end

