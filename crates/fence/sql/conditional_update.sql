-- A guard without an extra table: each row has its own highest token.
-- An example for one table: copy the two statements and use your own columns.

CREATE TABLE IF NOT EXISTS account (
    id      bigint PRIMARY KEY,
    balance bigint NOT NULL,
    fence   bigint NOT NULL DEFAULT 0       -- highest token that has claimed or written this row
);
-- An existing table needs only the column:
ALTER TABLE account ADD COLUMN IF NOT EXISTS fence bigint NOT NULL DEFAULT 0;

-- A new holder starts with this statement: it raises the mark of the row and reads in the same step. No returned row:
-- the token is stale, or the account does not exist. $1 is the id, $2 the token.
PREPARE account_claim (bigint, bigint) AS
    UPDATE account SET fence = $2 WHERE id = $1 AND fence <= $2 RETURNING balance;

-- Every later write compares again. No returned row: a newer holder has claimed the row; nothing was written.
-- $3 is the new balance.
PREPARE account_write (bigint, bigint, bigint) AS
    UPDATE account SET balance = $3, fence = $2 WHERE id = $1 AND fence <= $2 RETURNING id;
