-- One row for each protected resource: the highest fencing token that has written to it.
-- MySQL 8 or MariaDB 10.5 and later. Safe to run again.
CREATE TABLE IF NOT EXISTS fence (
    resource varbinary(2048) NOT NULL PRIMARY KEY,              -- UTF-8; a comparison of text ignores spaces at its end
    token    bigint       NOT NULL CHECK (token BETWEEN 1 AND 9007199254740991),
    holder   varchar(255) CHARACTER SET utf8mb4,                -- the first holder with this token, for information
    seen_at  timestamp    NOT NULL DEFAULT CURRENT_TIMESTAMP,   -- the time of its first use, for information
    checks   bigint       NOT NULL DEFAULT 0                    -- accepted calls, to detect an old snapshot
) ENGINE = InnoDB
