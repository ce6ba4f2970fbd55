-- The first statement of every fenced transaction, right after BEGIN IMMEDIATE. One returned row: the token is valid,
-- continue with reads and writes. No row: the token is stale; ROLLBACK, and stop.
--   ?1 the resource   ?2 the token   ?3 the floor of a shared grant, else the token again   ?4 the holder's name
INSERT INTO fence (resource, token, holder) SELECT ?1, ?3, ?4 WHERE ?3 <= ?2
    ON CONFLICT (resource) DO UPDATE
   SET holder  = CASE WHEN excluded.token > token THEN excluded.holder ELSE holder END,
       seen_at = CASE WHEN excluded.token > token THEN excluded.seen_at ELSE seen_at END,
       token   = max(token, excluded.token)
 WHERE token <= ?2
RETURNING token
