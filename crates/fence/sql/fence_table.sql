-- One row for each protected resource: the highest fencing token that has written to it.
-- PostgreSQL 14 or later. Safe to run again; run it inside a transaction (psql -1) or as one migration step.
-- All objects are created in the current schema and stay bound to it.

-- Serializes concurrent installations until the transaction ends.
DO $lock$ BEGIN PERFORM pg_advisory_xact_lock(hashtext('holdfast fence schema')); END $lock$;

CREATE TABLE IF NOT EXISTS fence (
    resource text        PRIMARY KEY,
    token    bigint      NOT NULL CHECK (token BETWEEN 1 AND 9007199254740991),
    holder   text,                                  -- the first holder with this token, for information
    seen_at  timestamptz NOT NULL DEFAULT now()     -- the time of its first use, for information
) WITH (fillfactor = 50);

COMMENT ON TABLE fence IS 'highest fencing token seen for each resource; only fence_check() writes here';

-- Raises the mark of a resource to a token and returns the token, or rejects the token. The row stays locked until the
-- transaction ends. Until then, no other holder of the resource that starts with the same call can read or write.
--
-- Holders that share a lock, or hold permits, pass their floor: the smallest token that may still be valid. The mark
-- rises to the floor only, so such holders do not reject each other, and they do not wait for each other.
--
-- Call it in a separate statement, before the transaction's first read. At READ COMMITTED the next statement takes a
-- new snapshot, which contains the commits of the previous holder. Above that level one snapshot serves the whole
-- transaction, and the call itself takes it before it waits for the row. The function rejects such a transaction.
--
--   FN001  the token is older than the mark; DETAIL is JSON: resource, token, newest, holder
--   FN002  the token is null, outside 1 .. 2^53-1, or below its floor
--   FN003  the transaction runs at REPEATABLE READ or SERIALIZABLE
CREATE OR REPLACE FUNCTION fence_check_shared(resource text, token bigint, floor bigint, holder text DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $body$
#variable_conflict use_column
DECLARE
    newest  fence%ROWTYPE;
    claimer text := coalesce(nullif(fence_check_shared.holder, ''), nullif(current_setting('application_name'), ''));
BEGIN
    IF fence_check_shared.token > 9007199254740991 THEN
        RAISE EXCEPTION 'the fencing token % for resource % is too large: tokens are below 2^53',
            fence_check_shared.token, coalesce(quote_ident(fence_check_shared.resource), 'missing')
            USING ERRCODE = 'FN002', HINT = 'pass the token of the grant unchanged';
    END IF;

    IF coalesce(fence_check_shared.resource, '') = '' OR fence_check_shared.token IS NULL
       OR fence_check_shared.floor IS NULL OR fence_check_shared.token NOT BETWEEN 1 AND 9007199254740991
       OR fence_check_shared.floor NOT BETWEEN 1 AND fence_check_shared.token THEN
        RAISE EXCEPTION 'write without a fencing token: resource %, token %',
            coalesce(quote_ident(fence_check_shared.resource), 'missing'),
            coalesce(fence_check_shared.token::text, 'missing')
            USING ERRCODE = 'FN002', HINT = 'acquire the lock and pass the token of its grant';
    END IF;

    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        RAISE EXCEPTION 'a % transaction may not see the last writes of the previous holder of "%"',
            upper(current_setting('transaction_isolation')), fence_check_shared.resource
            USING ERRCODE = 'FN003', HINT = 'begin it with: BEGIN ISOLATION LEVEL READ COMMITTED';
    END IF;

    -- If the mark has risen already, only lock the row, so that many statements of one holder write it once.
    IF fence_check_shared.floor = fence_check_shared.token THEN
        SELECT * INTO newest FROM fence f
         WHERE f.resource = fence_check_shared.resource AND f.token = fence_check_shared.token FOR UPDATE;
    ELSE
        SELECT * INTO newest FROM fence f
         WHERE f.resource = fence_check_shared.resource
           AND f.token BETWEEN fence_check_shared.floor AND fence_check_shared.token FOR SHARE;
    END IF;
    IF FOUND THEN
        RETURN fence_check_shared.token;
    END IF;

    INSERT INTO fence AS f (resource, token, holder)
    VALUES (fence_check_shared.resource, fence_check_shared.floor, claimer)
        ON CONFLICT (resource) DO UPDATE
       SET token = greatest(f.token, excluded.token), holder = excluded.holder, seen_at = now()
     WHERE f.token <= fence_check_shared.token;
    IF FOUND THEN
        RETURN fence_check_shared.token;
    END IF;

    SELECT * INTO newest FROM fence f WHERE f.resource = fence_check_shared.resource;
    RAISE EXCEPTION 'stale fencing token % for "%": the newest is %, shown by %',
        fence_check_shared.token, fence_check_shared.resource, newest.token,
        coalesce('"' || newest.holder || '"', 'an unnamed holder')
        USING ERRCODE = 'FN001',
              DETAIL = json_build_object('resource', fence_check_shared.resource, 'token', fence_check_shared.token,
                                         'newest', newest.token, 'holder', newest.holder)::text,
              HINT = 'another holder has the lock: stop, and acquire it again to continue';
END
$body$;

-- The form for an exclusive holder.
CREATE OR REPLACE FUNCTION fence_check(resource text, token bigint, holder text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $body$
BEGIN
    RETURN fence_check_shared(resource, token, token, holder);
END
$body$;

-- The functions run with their owner's rights, so a writer needs no right on the table and cannot lower a mark. Their
-- search path is fixed, with temporary tables last, so a caller cannot substitute another table "fence".
DO $pin$
BEGIN
    EXECUTE format('ALTER FUNCTION fence_check_shared(text, bigint, bigint, text) SET search_path = %I, pg_temp', current_schema());
    EXECUTE format('ALTER FUNCTION fence_check(text, bigint, text) SET search_path = %I, pg_temp', current_schema());
END
$pin$;
