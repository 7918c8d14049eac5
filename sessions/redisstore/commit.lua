-- Compares the versions of records, then writes records and index members, all or nothing.
--
-- KEYS  the counter of versions; the records expected; the records written; for each index entry its order and its rows
-- ARGV  where a new counter starts; the channel and what to tell on it ('': nothing); how many are expected, written, entries
--       for each expected: its version ('': there is none)
--       for each written: 'set' or 'del'; time to live in ms (0: for ever); value
--       for each entry: its place ('': remove it); member; value
--
-- Returns 0, or which of the expected does not hold.
local expected, written, entries = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local k, a = 2, 7

for i = 1, expected do
	if redis.call('GETRANGE', KEYS[k], 0, 15) ~= ARGV[a] then
		return i
	end
	k, a = k + 1, a + 1
end

if written > 0 then
	if redis.call('EXISTS', KEYS[1]) == 0 then
		redis.call('SET', KEYS[1], ARGV[1])
	end
	local version = string.format('%016.0f', redis.call('INCR', KEYS[1]))
	for _ = 1, written do
		if ARGV[a] == 'del' then
			redis.call('DEL', KEYS[k])
		elseif ARGV[a + 1] == '0' then
			redis.call('SET', KEYS[k], version .. ARGV[a + 2])
		else
			redis.call('SET', KEYS[k], version .. ARGV[a + 2], 'PX', ARGV[a + 1])
		end
		k, a = k + 1, a + 3
	end
end

for _ = 1, entries do
	local order, rows, place, member = KEYS[k], KEYS[k + 1], ARGV[a], ARGV[a + 1]
	local old = redis.call('HGET', rows, member)
	if old then
		redis.call('ZREM', order, string.sub(old, 1, 8) .. member)
	end
	if place ~= '' then
		redis.call('ZADD', order, 0, place .. member)
		redis.call('HSET', rows, member, place .. ARGV[a + 2])
	elseif old then
		redis.call('HDEL', rows, member)
	end
	k, a = k + 2, a + 3
end

if ARGV[3] ~= '' then
	redis.call('PUBLISH', ARGV[2], ARGV[3])
end
return 0
