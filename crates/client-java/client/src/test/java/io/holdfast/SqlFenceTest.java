package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.io.TempDir;

/** A former holder writes to real databases: SQLite, MariaDB, and the PostgreSQL in HOLDFAST_TEST_POSTGRES (a JDBC URL). */
@Timeout(120)
class SqlFenceTest {
    @RegisterExtension
    static final TestCluster cluster = TestCluster.of(1);

    /** The SQL that the program prints for a store. */
    private static String schema(String... store) throws Exception {
        List<String> command = new ArrayList<>(List.of(System.getenv("HOLDFAST_BIN"), "fence", "init"));
        command.addAll(List.of(store));
        Process print = new ProcessBuilder(command).start();
        String sql = new String(print.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, print.waitFor());
        return sql;
    }

    @Test
    void sqliteRejectsAFormerHolder(@TempDir Path folder) throws Exception {
        String url = "jdbc:sqlite:" + folder.resolve("shop.db");
        try (Connection install = DriverManager.getConnection(url); Statement statement = install.createStatement()) {
            String[] parts = schema("--sqlite").split("CREATE TRIGGER", 2);
            statement.execute(parts[0]);
            String trigger = parts[1];
            statement.execute("CREATE TRIGGER" + trigger.substring(0, trigger.indexOf("END;") + 4));
        }
        rejectsAFormerHolder(url, SqlFence.SQLITE, "sqlite");
    }

    @Test
    void postgresqlRejectsAFormerHolder() throws Exception {
        String url = System.getenv("HOLDFAST_TEST_POSTGRES");
        Assumptions.assumeTrue(url != null, "HOLDFAST_TEST_POSTGRES has no JDBC URL");
        try (Connection install = DriverManager.getConnection(url); Statement statement = install.createStatement()) {
            statement.execute("DROP TABLE IF EXISTS stock");
            statement.execute("CREATE TABLE stock (pieces integer NOT NULL)");
            statement.execute("INSERT INTO stock VALUES (100)");
            statement.execute(schema("--postgres", "--table", "stock", "--lock", "postgresql"));
            statement.execute("DELETE FROM fence");
        }
        rejectsAFormerHolder(url, SqlFence.POSTGRESQL, "postgresql");
    }

    @Test
    void mariaDbRejectsAFormerHolder(@TempDir Path folder) throws Exception {
        try (MariaDb database = MariaDb.start(folder)) {
            database.install(System.getenv("HOLDFAST_BIN"), "fence", "init", "--mysql");
            rejectsAFormerHolder(database.url(), SqlFence.MYSQL, "mysql");
        }
    }

    private static void rejectsAFormerHolder(String url, SqlFence fence, String lock) throws Exception {
        try (Connection connection = DriverManager.getConnection(url);
                Holdfast one = cluster.client();
                Holdfast two = cluster.client();
                Statement statement = connection.createStatement()) {
            if (fence != SqlFence.POSTGRESQL) {
                statement.execute("CREATE TABLE stock (pieces integer NOT NULL)");
                statement.execute("INSERT INTO stock VALUES (100)");
            }
            Guard former = one.lock(lock).acquire();
            assertThrows(IllegalStateException.class, () -> fence.raise(connection, lock, former));
            connection.setAutoCommit(false);
            sell(connection, fence, former);
            long token = former.token();
            two.forceRelease(lock, "test");
            Guard present = two.lock(lock).waitAtMost(Duration.ofSeconds(20)).acquire();
            sell(connection, fence, present);
            sell(connection, fence, present);
            former.lost().toCompletableFuture().get();
            assertThrows(LostException.class, () -> sell(connection, fence, former));
            connection.rollback();
            // A holder that was paused after its check still believes in the lock.
            Guard paused = withToken(present, token);
            StaleTokenException stale = assertThrows(StaleTokenException.class, () -> sell(connection, fence, paused));
            assertEquals("stale-token", stale.code());
            connection.rollback();
            assertEquals(97, pieces(connection));
            connection.rollback();
            sharedHoldersPass(connection, fence, lock + "/shared", one, two);
            aLostPermitIsRejectedInItsSlot(connection, fence, lock + "/permits", one, two);
        }
    }

    private static void sharedHoldersPass(Connection connection, SqlFence fence, String lock, Holdfast one, Holdfast two)
            throws Exception {
        Guard first = one.lock(lock).shared().acquire();
        Guard second = two.lock(lock).shared().acquire();
        for (Guard guard : new Guard[] {second, first}) {
            fence.raise(connection, lock, guard);
            connection.commit();
        }
        first.close();
        second.close();
        Guard writer = one.lock(lock).acquire();
        fence.raise(connection, lock, writer);
        connection.commit();
        Guard late = withToken(writer, second.token());
        assertThrows(StaleTokenException.class, () -> fence.raise(connection, lock, late));
        connection.rollback();
        writer.close();
    }

    private static void aLostPermitIsRejectedInItsSlot(
            Connection connection, SqlFence fence, String lock, Holdfast one, Holdfast two) throws Exception {
        Guard neighbour = one.semaphore(lock, 2).acquire();
        Guard lost = two.semaphore(lock, 2).acquire();
        long token = lost.token();
        String slot = lock + "#" + lost.slots().get(0);
        lost.close();
        Guard successor = two.semaphore(lock, 2).acquire();
        assertEquals(neighbour.token(), successor.minValidToken());
        fence.raise(connection, slot, successor);
        connection.commit();
        assertThrows(StaleTokenException.class, () -> fence.raise(connection, slot, withToken(successor, token)));
        connection.rollback();
        successor.close();
        neighbour.close();
    }

    /** A guard that is held, with the token of an earlier one. */
    private static Guard withToken(Guard guard, long token) {
        Grant grant = new Grant(token, token, guard.mode(), 1, guard.slots(), null);
        return new Guard(new Hold(guard.hold.session, guard.hold.entry, grant, guard.hold.grantedFrom));
    }

    private static void sell(Connection connection, SqlFence fence, Guard guard) throws SQLException {
        fence.raise(connection, guard.lock(), guard);
        try (Statement statement = connection.createStatement()) {
            statement.executeUpdate("UPDATE stock SET pieces = pieces - 1");
        }
        connection.commit();
    }

    private static int pieces(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery("SELECT pieces FROM stock")) {
            rows.next();
            return rows.getInt(1);
        }
    }
}
