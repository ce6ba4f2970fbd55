-- Raises the mark of a resource to the floor of a shared grant, or rejects the token. Call it first in the transaction.
-- The row stays locked until the transaction ends, so the transactions of one resource run one after the other. Reads
-- after the call return the commits of earlier holders.
--
--   SQLSTATE FN001  the token is older than the mark; @fence_newest is the mark, and @fence_holder its holder
--   SQLSTATE FN002  the token is null, outside 1 .. 2^53-1, or below its floor
--   SQLSTATE FN003  the transaction read before this call, and its snapshot is older than the last fenced transaction
CREATE PROCEDURE fence_check_shared(
    IN in_resource varchar(512) CHARACTER SET utf8mb4,
    IN in_token    bigint,
    IN in_floor    bigint,
    IN in_holder   varchar(255) CHARACTER SET utf8mb4
)
MODIFIES SQL DATA
SQL SECURITY DEFINER
BEGIN
    DECLARE newest, newest_checks, seen_checks bigint;
    DECLARE claimer varchar(255) CHARACTER SET utf8mb4;
    DECLARE message varchar(1024) CHARACTER SET utf8mb4;
    IF in_token > 9007199254740991 THEN
        SIGNAL SQLSTATE 'FN002' SET MESSAGE_TEXT = 'the fencing token is too large: tokens are below 2^53';
    END IF;
    IF coalesce(length(in_resource), 0) = 0 OR in_token IS NULL OR in_floor IS NULL
       OR in_token NOT BETWEEN 1 AND 9007199254740991 OR in_floor NOT BETWEEN 1 AND in_token THEN
        SIGNAL SQLSTATE 'FN002' SET MESSAGE_TEXT = 'write without a fencing token: pass the token of the grant';
    END IF;

    -- Creates the row, or locks it without a change.
    INSERT INTO fence (resource, token, holder) VALUES (in_resource, in_floor, nullif(in_holder, ''))
        ON DUPLICATE KEY UPDATE token = token;

    SELECT token, holder, checks INTO newest, claimer, newest_checks
      FROM fence WHERE resource = in_resource FOR UPDATE;
    IF in_token < newest THEN
        SET @fence_newest = newest, @fence_holder = claimer;
        SET message = concat('stale fencing token ', in_token, ' for "', in_resource, '": the newest is ', newest,
                             ', shown by ', coalesce(concat('"', claimer, '"'), 'an unnamed holder'));
        SET message = left(message, 128);
        SIGNAL SQLSTATE 'FN001' SET MESSAGE_TEXT = message;
    END IF;

    -- A read with FOR UPDATE returns the newest row. A plain read returns the row of the transaction's snapshot;
    -- max() is null if the snapshot has no row.
    SELECT max(checks) INTO seen_checks FROM fence WHERE resource = in_resource;
    IF NOT (seen_checks <=> newest_checks) THEN
        SIGNAL SQLSTATE 'FN003' SET MESSAGE_TEXT =
            'the snapshot is older than the last fenced transaction: call fence_check before the first SELECT';
    END IF;

    UPDATE fence
       SET checks  = checks + 1,
           holder  = if(in_floor > newest, nullif(in_holder, ''), holder),
           seen_at = if(in_floor > newest, CURRENT_TIMESTAMP, seen_at),
           token   = greatest(newest, in_floor)
     WHERE resource = in_resource;
END
