-- A guard for tables whose writers cannot all be changed. The trigger runs before every statement that writes, and
-- reads the token from the settings of the transaction. Needs fence_table.sql.
--
--   BEGIN;
--   SELECT fence_check('orders', 4812);                                                    -- before anything is read
--   SELECT set_config('fence.resource', 'orders', true), set_config('fence.token', '4812', true);
--   ... the statements of the old code ...
--   COMMIT;
--
-- The settings end with the transaction (the third argument), so a pooled connection does not keep them.
-- The trigger alone rejects stale writes; only fence_check before the first read rejects writes based on stale reads.
--
--   FN001  from fence_check: the token is stale
--   FN002  the transaction has no token, or a token for another resource than the table's
--   FN003  from fence_check: the transaction runs above READ COMMITTED
CREATE OR REPLACE FUNCTION fence_guard() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $body$
DECLARE
    resource text := nullif(current_setting('fence.resource', true), '');
    token    text := nullif(current_setting('fence.token', true), '');
    floor    text := coalesce(nullif(current_setting('fence.floor', true), ''), token);   -- lower for a shared hold
    holder   text := nullif(current_setting('fence.holder', true), '');
    wanted   text := CASE WHEN TG_NARGS > 0 THEN TG_ARGV[0] END;    -- null: any resource
BEGIN
    IF resource IS NULL OR token IS NULL OR token !~ '^[0-9]{1,16}$' OR floor !~ '^[0-9]{1,16}$' THEN
        RAISE EXCEPTION '% on %.% without a fencing token', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME
            USING ERRCODE = 'FN002', HINT = 'set fence.resource and fence.token for the transaction';
    END IF;
    IF resource <> wanted THEN
        RAISE EXCEPTION '% on %.% with a fencing token for "%": it needs one for "%"',
            TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME, resource, wanted
            USING ERRCODE = 'FN002', HINT = 'acquire the lock that protects this table';
    END IF;
    PERFORM fence_check_shared(resource, token::bigint, floor::bigint, holder);
    RETURN NULL;
END
$body$;

DO $pin$
BEGIN
    EXECUTE format('ALTER FUNCTION fence_guard() SET search_path = %I, pg_temp', current_schema());
END
$pin$;
