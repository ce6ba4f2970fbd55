-- Your commands. This example reads the key KEYS[2], or writes the value ARGV[3] to it. A new holder reads first.
if ARGV[3] then
  redis.call('SET', KEYS[2], ARGV[3])
  return 'OK'
end
return redis.call('GET', KEYS[2])
