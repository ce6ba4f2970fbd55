package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.util.Base64;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocket;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Requests over TLS, with a certificate of the JDK's keytool. */
@Timeout(120)
class TlsTest {
    private static final long LONG = 30_000 * Clock.MILLI;
    private static final Call GET = Call.get("/livez");

    @TempDir
    private static Path folder;
    private static SSLContext context;
    private static Path ca;

    private final CountDownLatch mayEnd = new CountDownLatch(1);
    private MisbehavingNode node;
    private Transport transport;

    /** Makes a certificate for 127.0.0.1, which signs itself. */
    @BeforeAll
    static void certificate() throws Exception {
        Path file = folder.resolve("store");
        Process process = new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "keytool").toString(),
                "-genkeypair", "-keystore", file.toString(), "-storepass", "secret", "-alias", "node", "-keyalg", "EC",
                "-dname", "CN=node", "-ext", "san=ip:127.0.0.1", "-ext", "bc=ca:true").redirectErrorStream(true).start();
        String output = new String(process.getInputStream().readAllBytes());
        assertEquals(0, process.waitFor(), output);
        KeyStore store = KeyStore.getInstance(file.toFile(), "secret".toCharArray());
        byte[] encoded = store.getCertificate("node").getEncoded();
        ca = Files.writeString(folder.resolve("ca.pem"), "-----BEGIN CERTIFICATE-----\n"
                + Base64.getMimeEncoder().encodeToString(encoded) + "\n-----END CERTIFICATE-----\n");
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(store, "secret".toCharArray());
        context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), null, null);
    }

    @AfterEach
    void close() throws Exception {
        mayEnd.countDown();
        transport.close();
        node.close();
        assertEquals(0, node.failures.size(), () -> node.failures.toString());
    }

    private static ServerSocket server() throws Exception {
        return context.getServerSocketFactory().createServerSocket(0, 50, InetAddress.getLoopbackAddress());
    }

    private Request request(String host, Path ca) {
        transport = new Transport(Tls.context(ca, null, null), null);
        return again(host);
    }

    private Request again(String host) {
        return transport.request("https://" + node.address().replace("127.0.0.1", host), GET);
    }

    @Test
    void aRequestHasItsTimeLimitAndItsConnectionIsUsedAgain() throws Exception {
        node = new MisbehavingNode(server(), socket -> {
            MisbehavingNode.head(socket);
            for (char c : MisbehavingNode.answer("hello").toCharArray()) {
                mayEnd.await(5, TimeUnit.MILLISECONDS);
                MisbehavingNode.send(socket, String.valueOf(c));
            }
            MisbehavingNode.head(socket);
            MisbehavingNode.send(socket, MisbehavingNode.answer(((SSLSocket) socket).getSession().getProtocol()));
            mayEnd.await();
        });
        Request request = request("127.0.0.1", ca);
        request.open();
        Response response = null;
        int waits = 0;
        for (; response == null; waits++) {
            response = request.answer(20 * Clock.MILLI);
        }
        assertTrue(waits > 1);
        assertEquals("hello", new String(response.body()));
        Request next = again("127.0.0.1");
        assertTrue(next.isOpen());
        assertEquals("TLSv1.3", new String(next.answer(LONG).body()));
        assertEquals(1, node.accepted.size());
    }

    /** A record of TLS that comes byte by byte, each within the time of a read, ends with the time of the call. */
    @Test
    void aRecordInPiecesDoesNotExtendTheTime() throws Exception {
        ServerSocket behind = server();
        node = MisbehavingNode.of(socket -> MisbehavingNode.relaySlowly(socket, behind.getLocalPort(), mayEnd));
        Background.thread("tls-node", () -> answerOne(behind)).start();
        Request request = request("127.0.0.1", ca);
        request.open();
        long began = System.nanoTime();
        assertNull(request.answer(200 * Clock.MILLI));
        long millis = (System.nanoTime() - began) / Clock.MILLI;
        assertTrue(millis >= 200 && millis < 2_000, millis + " ms");
        mayEnd.countDown();
        assertEquals("x".repeat(1_000), new String(request.answer(LONG).body()));
        behind.close();
    }

    private static void answerOne(ServerSocket server) {
        try (var socket = server.accept()) {
            MisbehavingNode.head(socket);
            MisbehavingNode.send(socket, MisbehavingNode.answer("x".repeat(1_000)));
            MisbehavingNode.head(socket);
        } catch (IOException e) {
            // The test is over.
        }
    }

    @Test
    void aCertificateForAnotherNameOrOfAnUnknownAuthorityIsRejected() throws Exception {
        node = new MisbehavingNode(server(), MisbehavingNode::head);
        Request otherName = request("localhost", ca);
        String reason = assertThrows(Request.NotSentException.class, otherName::open).getMessage();
        assertTrue(reason.contains("localhost"), reason);
        Request unknown = request("127.0.0.1", null);
        reason = assertThrows(Request.NotSentException.class, unknown::open).getMessage();
        assertTrue(reason.contains("certification path"), reason);
    }
}
