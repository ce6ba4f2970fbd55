-- The form for an exclusive holder.
CREATE PROCEDURE fence_check(
    IN in_resource varchar(512) CHARACTER SET utf8mb4,
    IN in_token    bigint,
    IN in_holder   varchar(255) CHARACTER SET utf8mb4
)
MODIFIES SQL DATA
SQL SECURITY DEFINER
BEGIN
    CALL fence_check_shared(in_resource, in_token, in_token, in_holder);
END
