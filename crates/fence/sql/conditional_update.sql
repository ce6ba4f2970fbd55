-- The guard that needs no extra table: the row carries the highest token itself.
-- An example on one table; take the two statements and put your own columns in.

CREATE TABLE IF NOT EXISTS account (
    id      bigint PRIMARY KEY,
    balance bigint NOT NULL,
    fence   bigint NOT NULL DEFAULT 0       -- highest token that has claimed or written this row
);
-- A table that exists needs the column alone:
ALTER TABLE account ADD COLUMN IF NOT EXISTS fence bigint NOT NULL DEFAULT 0;

-- First act of a new holder: raise the row's mark, and read in the same step. No row means: our token is stale
-- (or there is no such account). $1 is the id, $2 the token.
PREPARE account_claim (bigint, bigint) AS
    UPDATE account SET fence = $2 WHERE id = $1 AND fence <= $2 RETURNING balance;

-- Every write after it checks again. No row means: somebody newer has claimed the row; nothing was written.
-- $3 is the new balance.
PREPARE account_write (bigint, bigint, bigint) AS
    UPDATE account SET balance = $3, fence = $2 WHERE id = $1 AND fence <= $2 RETURNING id;
