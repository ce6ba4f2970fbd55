package io.holdfast;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;

/**
 * Rejects former holders in a database: {@link #raise} is the first statement of each transaction under the lock. It
 * raises the mark of a resource to the token of the guard, or throws {@link StaleTokenException}. The next holder then
 * reads every write that an earlier holder committed.
 *
 * <p>{@code holdfast fence init --postgres}, {@code --mysql} and {@code --sqlite} print the statements that install the
 * marks.
 *
 * <pre>{@code
 * connection.setAutoCommit(false);
 * SqlFence.POSTGRESQL.raise(connection, "orders", guard);
 * // read and write
 * connection.commit();
 * }</pre>
 */
public enum SqlFence {
    /** PostgreSQL 14 and later, at the isolation level READ COMMITTED. */
    POSTGRESQL("""
            SELECT fence_check_shared(resource, token, floor, holder), set_config('fence.resource', resource, true),
                   set_config('fence.token', token::text, true), set_config('fence.floor', floor::text, true),
                   set_config('fence.holder', coalesce(holder, ''), true)
              FROM (VALUES (?::text, ?::bigint, ?::bigint, ?::text)) AS claim (resource, token, floor, holder)"""),

    /** MySQL 8 and MariaDB 10.5 and later, for tables of InnoDB. Tested with MariaDB. */
    MYSQL("CALL fence_check_shared(?, ?, ?, ?)"),

    /** SQLite 3.35 and later. */
    SQLITE("""
            INSERT INTO fence (resource, token, holder) SELECT ?1, ?3, ?4 WHERE ?3 <= ?2
                ON CONFLICT (resource) DO UPDATE
               SET holder  = CASE WHEN excluded.token > token THEN excluded.holder ELSE holder END,
                   seen_at = CASE WHEN excluded.token > token THEN excluded.seen_at ELSE seen_at END,
                   token   = max(token, excluded.token)
             WHERE token <= ?2
            RETURNING token""");

    private static final String STALE = "FN001";

    private final String statement;

    SqlFence(String statement) {
        this.statement = statement;
    }

    /**
     * Raises the mark of a resource in the transaction of the connection, before its first read. A slot of the guard, such
     * as {@code pool#3}, has one holder at a time, so its mark rises to the whole token.
     *
     * @param connection a connection without autocommit; the caller commits or rolls back
     * @param resource the resource, e.g. the name of the lock
     * @param guard the holder
     * @throws StaleTokenException if the database has accepted a larger token
     * @throws LostException if the lock is lost
     * @throws IllegalStateException if the connection commits each statement by itself
     * @throws SQLException another error of the database
     */
    public void raise(Connection connection, String resource, Guard guard) throws SQLException {
        guard.ensure();
        if (connection.getAutoCommit()) {
            throw new IllegalStateException("the mark and the writes need one transaction: call setAutoCommit(false) first");
        }
        long token = guard.token();
        // Other holders may be present, so their older tokens stay valid down to the floor.
        boolean isOwnSlot = guard.slots().stream().anyMatch(slot -> resource.equals(guard.lock() + "#" + slot));
        boolean isAlone = isOwnSlot || guard.mode() == Mode.EXCLUSIVE && guard.slots().isEmpty();
        long floor = isAlone ? token : guard.minValidToken();
        try (PreparedStatement raise = connection.prepareStatement(statement)) {
            raise.setString(1, resource);
            raise.setLong(2, token);
            raise.setLong(3, floor);
            raise.setString(4, guard.session());
            // MySQL returns no rows, and an error for a stale token; SQLite returns no row for one.
            boolean hasRows = raise.execute();
            try (ResultSet row = raise.getResultSet()) {
                if (hasRows && !row.next()) {
                    throw new StaleTokenException(resource, token);
                }
            }
        } catch (SQLException e) {
            if (STALE.equals(e.getSQLState())) {
                throw (StaleTokenException) new StaleTokenException(resource, token).initCause(e);
            }
            throw e;
        }
    }
}
