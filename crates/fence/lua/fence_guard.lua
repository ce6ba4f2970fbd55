-- The guard for Redis and Valkey: the start of every script that writes. Append your own commands; they run in the
-- same atomic step, and only if the token is not stale.
--
--   KEYS[1]   the mark: {orders}:fence      KEYS[2] ...  your keys, in the same slot: {orders}:stock
--   ARGV[1]   the token of the grant        ARGV[3] ...  your arguments
--   ARGV[2]   the floor of a shared grant, or '' for an exclusive holder
--
--   STALEFENCE <token> <newest>  the token is older than the mark
--   NOFENCE ...                  the token is missing or invalid, or the mark is no token
--
-- Tokens are from 1 to 2^53 - 1, which tonumber() represents exactly.
local token, floor = ARGV[1] or '', ARGV[2] or ''
if floor == '' then floor = token end
local function is_token(text) return string.match(text, '^[1-9]%d*$') ~= nil and tonumber(text) < 9007199254740992 end
local function is_below(a, b) return tonumber(a) < tonumber(b) end
if not is_token(token) or not is_token(floor) or is_below(token, floor) then
  return redis.error_reply('NOFENCE write without a fencing token: pass the token of the grant')
end
local mark = redis.call('GET', KEYS[1])
if mark and not is_token(mark) then
  return redis.error_reply('NOFENCE the mark ' .. KEYS[1] .. ' is no token: another program wrote it, restore the mark')
end
if mark and is_below(token, mark) then
  return redis.error_reply('STALEFENCE ' .. token .. ' ' .. mark)
end
if not mark or is_below(mark, floor) then redis.call('SET', KEYS[1], floor) end
