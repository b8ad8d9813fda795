-- Sets bits of a bitmap, and says when it is forgotten: a command for each of them would cost the client ten times as much.
--
-- KEYS[1]  the bitmap of a shard and hour
-- ARGV[1]  the places, each as four bytes, the lowest first
-- ARGV[2]  milliseconds for which it is kept, from now on

for first = 1, #ARGV[1], 4 do
  redis.call('SETBIT', KEYS[1], struct.unpack('<I4', ARGV[1], first), 1)
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
