-- Appends segments to a journal if the fence is not lower than the journal's and the first seq is its next.
--
-- KEYS  the journal's header, tail and stream
-- ARGV  fence; first seq; next seq; the channel and what to tell on it; then for each segment: its id, its payload bytes, its data
--
-- Returns 'ok', 'missing', 'fenced' or 'gap'. Fences are texts of one length, so they compare as numbers do.
local header = redis.call('HMGET', KEYS[1], 'fence', 'clean')
if not header[1] then
	return 'missing'
end
if ARGV[1] < header[1] then
	return 'fenced'
end
local tail = redis.call('HMGET', KEYS[2], 'next', 'bytes')
if tail[1] ~= ARGV[2] then
	return 'gap'
end

local bytes = tonumber(tail[2])
for i = 6, #ARGV, 3 do
	redis.call('XADD', KEYS[3], ARGV[i], 'b', string.format('%.0f', bytes), 'd', ARGV[i + 2])
	bytes = bytes + tonumber(ARGV[i + 1])
end
redis.call('HSET', KEYS[2], 'next', ARGV[3], 'bytes', string.format('%.0f', bytes))
if header[2] == '1' then
	redis.call('HSET', KEYS[1], 'clean', '0')
end
redis.call('PUBLISH', ARGV[4], ARGV[5])
return 'ok'
