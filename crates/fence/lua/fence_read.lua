-- Raises the mark and reads, in one step: the first act of a new holder. KEYS[2] is what it reads.
return redis.call('GET', KEYS[2])
