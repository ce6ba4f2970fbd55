-- One row for each protected resource: the highest fencing token that has written to it.
-- PostgreSQL 14 or later. Safe to run again; run it inside a transaction (psql -1) or as one migration step.
-- Everything lands in the current schema and stays bound to it.

SELECT pg_advisory_xact_lock(hashtext('holdfast fence schema'));  -- several installers at once take turns

CREATE TABLE IF NOT EXISTS fence (
    resource text        PRIMARY KEY,
    token    bigint      NOT NULL CHECK (token BETWEEN 1 AND 9007199254740991),
    holder   text,                                  -- who showed this token first, for people
    seen_at  timestamptz NOT NULL DEFAULT now()     -- when it was shown first, for people
) WITH (fillfactor = 50);

COMMENT ON TABLE fence IS 'highest fencing token seen for each resource; only fence_check() writes here';

-- Raises the mark of a resource to a token, or refuses the token. The row stays locked until the transaction
-- ends, so between this call and COMMIT no other holder of the same resource can read or write behind our back,
-- as long as it starts with the same call. Answers the token.
--
-- For holders that share a lock, or hold one permit of several: the mark rises to their floor only, the smallest
-- token that may still be good, so that they do not shut out each other; and they do not wait for each other.
--
-- Call it in a statement of its own, before the transaction's first read. At READ COMMITTED the next statement takes a
-- new snapshot, so it sees what the previous holder committed. Above that level one snapshot serves the whole
-- transaction, and the call itself takes it before it waits for the row. Such a transaction is refused.
--
--   FN001  the token is older than the mark; DETAIL is JSON: resource, token, newest, holder
--   FN002  there is no usable token: null, outside 1 .. 2^53-1, or below its own floor
--   FN003  the transaction runs at REPEATABLE READ or SERIALIZABLE
CREATE OR REPLACE FUNCTION fence_check_shared(resource text, token bigint, floor bigint, holder text DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $body$
#variable_conflict use_column
DECLARE
    newest  fence%ROWTYPE;
    claimer text := coalesce(nullif(fence_check_shared.holder, ''), nullif(current_setting('application_name'), ''));
BEGIN
    IF coalesce(fence_check_shared.resource, '') = '' OR fence_check_shared.token IS NULL
       OR fence_check_shared.floor IS NULL OR fence_check_shared.token NOT BETWEEN 1 AND 9007199254740991
       OR fence_check_shared.floor NOT BETWEEN 1 AND fence_check_shared.token THEN
        RAISE EXCEPTION 'write without a fencing token: resource %, token %',
            coalesce(quote_ident(fence_check_shared.resource), 'missing'),
            coalesce(fence_check_shared.token::text, 'missing')
            USING ERRCODE = 'FN002', HINT = 'take the lock and pass the token of its grant';
    END IF;

    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        RAISE EXCEPTION 'a % transaction may not see the last writes of the previous holder of "%"',
            upper(current_setting('transaction_isolation')), fence_check_shared.resource
            USING ERRCODE = 'FN003', HINT = 'begin it with: BEGIN ISOLATION LEVEL READ COMMITTED';
    END IF;

    -- The mark is where it has to be: lock the row, write nothing, however many statements the holder sends.
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
        coalesce('"' || newest.holder || '"', 'nobody named')
        USING ERRCODE = 'FN001',
              DETAIL = json_build_object('resource', fence_check_shared.resource, 'token', fence_check_shared.token,
                                         'newest', newest.token, 'holder', newest.holder)::text,
              HINT = 'the lock went to somebody else: stop, and take it again if the work must go on';
END
$body$;

-- The same for the one holder of an exclusive lock.
CREATE OR REPLACE FUNCTION fence_check(resource text, token bigint, holder text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $body$
BEGIN
    RETURN fence_check_shared(resource, token, token, holder);
END
$body$;

-- The functions run with their owner's rights, so a writer needs no right on the table and cannot lower a mark;
-- their search path is pinned, temporary tables last, so nobody can slip another "fence" under them.
DO $pin$
BEGIN
    EXECUTE format('ALTER FUNCTION fence_check_shared(text, bigint, bigint, text) SET search_path = %I, pg_temp', current_schema());
    EXECUTE format('ALTER FUNCTION fence_check(text, bigint, text) SET search_path = %I, pg_temp', current_schema());
END
$pin$;
