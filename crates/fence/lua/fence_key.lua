-- Your commands. These read the key KEYS[2], or write it if there is a value ARGV[3]. A new holder reads first.
if ARGV[3] then
  redis.call('SET', KEYS[2], ARGV[3])
  return 'OK'
end
return redis.call('GET', KEYS[2])
