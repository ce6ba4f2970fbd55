-- Writes: KEYS[2] becomes ARGV[3].
redis.call('SET', KEYS[2], ARGV[3])
return 'OK'
