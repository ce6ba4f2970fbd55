package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The parts without I/O: deadlines, limits, classes of answers, numbers and texts. */
class CoreTest {
    private static final long TTL = ms(30_000);

    private static long ms(long millis) {
        return millis * Clock.MILLI;
    }

    private static Loss.Cause causeOf(Loss loss) {
        return loss == null ? null : loss.cause();
    }

    @Test
    void theDeadlineIsBeforeTheServersByAMargin() {
        assertEquals(ms(1_000 + 30_000 - 300 - 5), Lease.deadline(ms(1_000), TTL));
        assertEquals(0, Lease.deadline(0, ms(3)));
    }

    @Test
    void aRenewalIsDueWithinTheLastTenthOfTheFirstThird() {
        assertEquals(ms(10_000), Lease.nextRenewal(0, TTL, 0));
        assertEquals(ms(9_000), Lease.nextRenewal(0, TTL, 255));
        for (int jitter = 0; jitter < 256; jitter++) {
            long park = Lease.acknowledged(0, TTL, 0).parkTime(jitter);
            assertTrue(park <= ms(5_000) && park >= ms(4_500));
        }
        assertEquals(ms(45_000), Lease.acknowledged(0, ms(86_400_000), 0).parkTime(0));
    }

    @Test
    void aDeadlineThatPassedStaysPassed() {
        Lease lease = Lease.acknowledged(0, TTL, 0);
        assertNull(lease.loss(ms(29_694)));
        assertEquals(Loss.Cause.NOT_RENEWED, lease.loss(ms(29_695)).cause());
        // Sent in time, acknowledged too late: the server keeps the session, but the work may have stopped.
        Lease late = lease.acknowledge(ms(29_000), TTL, 0, ms(29_700));
        assertNotNull(late.loss(ms(29_701)));
    }

    @Test
    void aLateAcknowledgementMovesNoDeadlineBack() {
        Lease lease = Lease.acknowledged(ms(10_000), TTL, 0).acknowledge(ms(5_000), TTL, 0, ms(11_000));
        assertEquals(Lease.deadline(ms(10_000), TTL), lease.deadline());
    }

    @Test
    void theFirstLossStays() {
        Lease lease = Lease.acknowledged(0, TTL, 0).renewalFailed("node 1 is down", ms(9_000));
        assertEquals(ms(9_200), lease.renewAt());
        lease = lease.end(Loss.RELEASED_ELSEWHERE, ms(40_000)).end(Loss.SESSION_ENDED, ms(50_000));
        assertEquals(new Loss(Loss.Cause.NOT_RENEWED, "node 1 is down"), lease.loss(1));
        Lease ended = Lease.acknowledged(0, TTL, 0).end(Loss.SESSION_ENDED, ms(10));
        assertEquals(Loss.SESSION_ENDED, ended.acknowledge(ms(11), TTL, 0, ms(12)).loss(ms(12)));
    }

    @Test
    void aLimitOfAHoldStaysExceeded() {
        HoldLimits limits = HoldLimits.of(ms(100), ms(1_000), 0);
        assertEquals(ms(100), limits.next());
        limits = limits.reportProgress(ms(50));
        assertNull(limits.loss(ms(149)));
        assertEquals(Loss.Cause.STALLED, causeOf(limits.loss(ms(150))));
        assertEquals(limits, limits.reportProgress(ms(150)), "a late report");
        HoldLimits max = HoldLimits.of(0, ms(1_000), 0);
        assertEquals(Loss.Cause.MAX_HOLD_EXCEEDED, causeOf(max.loss(ms(1_000))));
        HoldLimits revoked = max.revoke(ms(500), "why").revoke(ms(700), "later");
        assertEquals(new Loss(Loss.Cause.REVOKED, "why"), revoked.loss(ms(500)));
        HoldLimits lost = revoked.lose(Loss.RELEASED_ELSEWHERE, ms(10)).lose(Loss.SESSION_ENDED, ms(20));
        assertEquals(Loss.RELEASED_ELSEWHERE, lost.loss(ms(2_000)));
        assertEquals(Long.MAX_VALUE, HoldLimits.none().next());
    }

    @Test
    void theClockDoesNotGoBackAndCountsSuspensions() {
        long before = Clock.system().nanos();
        long after = Clock.system().nanos();
        assertTrue(before >= 0 && after >= before);
        assertEquals(350_735_470_000_000L, SystemClock.parseUptime("350735.47 234388.90"));
        assertEquals(Long.MAX_VALUE, Clock.plus(1, Long.MAX_VALUE));
        assertEquals(0, Clock.left(5, 7));
    }

    @Test
    void onLinuxTheClockOfTheMachineReadsTheUptime() throws IOException {
        Path uptime = Path.of("/proc/uptime");
        assumeTrue(Files.exists(uptime));
        long before = SystemClock.parseUptime(Files.readString(uptime));
        long read = ((SystemClock) Clock.system()).outside.get().orElseThrow();
        long after = SystemClock.parseUptime(Files.readString(uptime));
        assertTrue(before <= read && read <= after, before + " " + read + " " + after);
    }

    @Test
    void aLineWithoutNumbersIsNoUptime() {
        for (String line : List.of("", " ", "\n", "up 3 days")) {
            assertThrows(NumberFormatException.class, () -> SystemClock.parseUptime(line), line);
        }
    }

    @Test
    void aFailedReadOfTheUptimeKeepsTheKnownSuspensions() {
        AtomicLong awake = new AtomicLong(ms(1_000));
        AtomicReference<OptionalLong> uptime = new AtomicReference<>(OptionalLong.of(ms(50_000)));
        SystemClock clock = new SystemClock(awake::get, awake::get, uptime::get);
        awake.set(ms(2_000));
        uptime.set(OptionalLong.of(ms(61_000)));
        assertEquals(ms(11_000), clock.nanos(), "10 s of a suspension");
        awake.set(ms(3_000));
        uptime.set(OptionalLong.empty());
        assertEquals(ms(12_000), clock.nanos(), "no descriptor is left");
        awake.set(ms(4_000));
        uptime.set(OptionalLong.of(ms(73_000)));
        assertEquals(ms(23_000), clock.nanos());
    }

    @Test
    void theClockReadsTheUptimeOnlyAfterAMoveOfTheWallClockOrATime() {
        AtomicLong awake = new AtomicLong();
        AtomicLong wall = new AtomicLong();
        AtomicLong reads = new AtomicLong();
        AtomicLong uptime = new AtomicLong();
        SystemClock clock = new SystemClock(awake::get, wall::get, () -> {
            reads.incrementAndGet();
            return OptionalLong.of(uptime.get());
        });
        assertEquals(0, clock.nanos());
        long first = reads.get();
        awake.addAndGet(ms(99));
        wall.addAndGet(ms(99));
        assertEquals(ms(99), clock.nanos());
        assertEquals(first, reads.get());
        // A suspension of a minute.
        wall.addAndGet(ms(60_000));
        uptime.addAndGet(ms(60_099));
        assertEquals(ms(60_099), clock.nanos());
        assertEquals(first + 1, reads.get());
        // Somebody set the wall clock back by the same time, and the uptime shows the next suspension.
        wall.addAndGet(ms(-60_000));
        assertEquals(ms(60_099), clock.nanos());
        assertEquals(first + 2, reads.get());
        uptime.addAndGet(ms(5_100));
        awake.addAndGet(ms(100));
        wall.addAndGet(ms(100));
        assertEquals(ms(65_199), clock.nanos());
    }

    @Test
    void aWallClockThatIsSetBackHidesNoLaterSuspension() {
        AtomicLong awake = new AtomicLong();
        AtomicLong wall = new AtomicLong(ms(7_200_000));
        SystemClock clock = new SystemClock(awake::get, wall::get, new SystemClock.LargerProgress(awake::get, wall::get));
        assertEquals(0, clock.nanos());
        wall.addAndGet(ms(-3_600_000));
        assertEquals(0, clock.nanos());
        wall.addAndGet(ms(60_000));
        assertEquals(ms(60_000), clock.nanos(), "a suspension of a minute");
        awake.addAndGet(ms(200));
        wall.addAndGet(ms(200));
        assertEquals(ms(60_200), clock.nanos());
        wall.addAndGet(ms(3_600_000));
        assertEquals(ms(3_660_200), clock.nanos(), "set forward");
    }

    @Test
    void aHoldEndsAtTheEndOfItsGrant() {
        Duration requested = Duration.ofSeconds(10);
        assertEquals(HoldLimits.NEVER, HoldLimits.end(null, null, ms(1_000)));
        assertEquals(Lease.deadline(ms(1_000), ms(10_000)), HoldLimits.end(null, requested, ms(1_000)));
        assertEquals(Lease.deadline(ms(1_000), ms(10_000)), HoldLimits.end(20_000L, requested, ms(1_000)));
        assertEquals(Lease.deadline(ms(1_000), ms(5_000)), HoldLimits.end(5_000L, requested, ms(1_000)));
        assertEquals(Lease.deadline(ms(1_000), ms(20_000)), HoldLimits.end(20_000L, null, ms(1_000)));
        assertEquals(ms(1_000), HoldLimits.end(0L, null, ms(1_000)));
    }

    @Test
    void anUpgradeAwaitsOnlyTheNewTokenOfItsHold() {
        for (int[] test : new int[][] {{5, 5, 9, 1}, {5, 6, 9, 0}, {5, 0, 9, 0}, {0, 0, 9, 0}, {5, 5, 7, 0}}) {
            QueueEntry entry = new QueueEntry("orders", "o", 1, false);
            entry.hold(7);
            entry.enter(QueueEntry.Stage.CONVERTING);
            entry.ticket = test[0];
            Json listed = Json.parse("{\"lock\":\"orders\",\"ticket\":" + test[1] + ",\"token\":" + test[2] + "}");
            assertEquals(test[3] == 1, entry.isUpgradedTo(listed));
        }
    }

    @Test
    void everyNumberIsLargerThanThoseBefore() {
        long first = Numbers.next(0);
        long second = Numbers.next(first + 1_000_000_000);
        assertTrue(second > first + 1_000_000_000, "another process of the session is ahead");
        assertTrue(Numbers.next(0) > second);
        assertTrue(Numbers.unique("g").matches("g-[0-9a-f]{16}"));
    }

    @Test
    void jsonIsReadExactly() {
        Json body = Json.parse("{\"a\":[1,-2.5e1,true,null],\"b\":{\"k\":\"\\u00fc\\n\\\"\"},\"n\":9007199254740991,\"z\":null} ");
        assertEquals(9_007_199_254_740_991L, body.numberOr("n", 0));
        assertEquals(Map.of("k", "ü\n\""), body.texts("b"));
        assertEquals(4, body.list("a").size());
        assertTrue(body.get("z").isNull() && body.get("absent").isNull());
        assertEquals("x", body.textOr("absent", "x"));
        for (String bad : List.of("", "{", "[1,]", "{\"a\" 1}", "tru", "\"", "\"\\u12\"", "1 2", "nul", "[1", "-", "\"\n\"")) {
            assertThrows(IllegalArgumentException.class, () -> Json.parse(bad), bad);
        }
        assertThrows(IllegalArgumentException.class, () -> Json.parse("[".repeat(10_000)));
    }

    @Test
    void targetsAreEncoded() {
        String target = Call.Target.of("/v1/locks/", "a b/ü").with(Parameter.VALUE, "x&y=1").with(Parameter.OWNER, null)
                .with(Parameter.MAX_HOLD, java.time.Duration.ofMillis(1_500)).waiting(ms(20)).toString();
        assertEquals("/v1/locks/a%20b/%C3%BC?value=x%26y%3D1&max_hold=1500ms&wait=20ms", target);
        assertThrows(InvalidArgumentException.class, () -> Names.lock("a/../b"));
        assertThrows(InvalidArgumentException.class, () -> Names.lock("a/"));
        assertThrows(InvalidArgumentException.class, () -> Names.lock("x".repeat(513)));
        assertThrows(InvalidArgumentException.class, () -> Names.lock("a\nb"));
    }

    @Test
    void addressesAreChecked() {
        assertEquals(List.of("http://a:1", "http://b:2"), Addresses.bases(List.of("a:1, b:2"), false));
        assertEquals(List.of("https://[::1]:7400"), Addresses.bases(List.of("[::1]:7400"), true));
        for (String bad : List.of("", "a", "ftp://a:1", "http://a:1/path", "::1:7400")) {
            assertThrows(InvalidArgumentException.class, () -> Addresses.bases(List.of(bad), false), bad);
        }
    }

    @Test
    void anErrorDoesNotShowThePasswordOfAnAddress() {
        for (String bad : List.of("http://u:secret@a:1", "b:2,u:sec,ret@a:1", "http://u:@secret@a:1", "u:sec%ret@a")) {
            var error = assertThrows(InvalidArgumentException.class, () -> Addresses.bases(List.of(bad), false), bad);
            assertFalse(error.getMessage().contains("sec"), error.getMessage());
        }
    }

    private static Outcome answer(int status, String body) {
        return answer(status, body, new Headers().add("holdfast-request-id", "r1"));
    }

    private static Outcome answer(int status, String body, Headers headers) {
        return Outcome.of("http://a:1", new Response(status, headers, body.getBytes(StandardCharsets.UTF_8)));
    }

    private static Outcome problem(int status, String code, boolean retryable) {
        return answer(status, "{\"title\":\"T\",\"code\":\"" + code + "\",\"retryable\":" + retryable + ",\"newest_attempt\":7}");
    }

    @Test
    void answersHaveAClass() {
        assertEquals(Outcome.Kind.SUCCESS, answer(204, "").kind());
        assertEquals(Outcome.Kind.SUCCESS, answer(200, "{\"lock\":\"a\"}").kind());
        for (String page : List.of("", "{}", "[]", "null", "<html>")) {
            assertEquals(Outcome.Kind.FOREIGN, answer(200, page).kind(), page);
        }
        assertEquals(BusyException.class, problem(423, "lock-busy", true).error().getClass());
        assertEquals(LostException.class, problem(410, "session-expired", false).error().getClass());
        assertEquals(Outcome.Kind.NOT_DONE, problem(503, "no-leader", true).kind());
        assertEquals(Outcome.Kind.MAY_BE_DONE, problem(503, "outcome-unknown", true).kind());
        assertEquals(Outcome.Kind.MAY_BE_DONE, problem(500, "internal", false).kind());
        assertEquals(Outcome.Kind.MAY_BE_DONE, answer(502, "<html>").kind());
        assertEquals(Outcome.Kind.FOREIGN, answer(404, "<html>").kind());
        Outcome unexpected = answer(404, "", new Headers().add("holdfast-node", "1"));
        assertEquals(UnexpectedResponseException.class, unexpected.error().getClass());
        HoldfastException over = problem(409, "attempt-over", false).error();
        assertEquals(7, over.newest("attempt-over"));
        assertEquals(-1, over.newest("request-over"));
        assertEquals("r1", over.requestId());
        assertFalse(over.retryable());
        assertEquals(Outcome.Kind.NOT_DONE, Transport.failed("b", new Request.NotSentException("refused")).kind());
        assertEquals(Outcome.Kind.MAY_BE_DONE, Transport.failed("b", new IOException("closed")).kind());
    }

    @Test
    void callsStartAtTheLeaderAndFailedNodesComeLast() {
        Nodes nodes = new Nodes(List.of("a", "b", "c"), 1);
        assertEquals(List.of("b", "c", "a"), bases(nodes.order(0)));
        nodes.order(0).get(0).rest(0);
        assertEquals(List.of("c", "a", "b"), bases(nodes.order(ms(999))));
        assertEquals(List.of("b", "c", "a"), bases(nodes.order(ms(1_000))));
        Node a = nodes.order(ms(1_000)).get(2);
        Headers headers = new Headers().add("holdfast-node", "3").add("holdfast-leader", "3");
        nodes.learn(a, new Response(200, headers, new byte[0]));
        assertEquals("a", nodes.order(ms(1_000)).get(0).base);
        a.waiting.incrementAndGet();
        assertEquals("a", nodes.orderOfIdle(ms(1_000)).get(2).base, "a keepalive is not parked beside an acquire");
    }

    private static List<String> bases(List<Node> order) {
        return order.stream().map(node -> node.base).toList();
    }

    @Test
    void anAccessTokenIsReadAgainAfterAChange(@TempDir Path folder) throws IOException {
        Path file = Files.writeString(folder.resolve("token"), "hf_one\n");
        AccessToken token = AccessToken.file(file);
        assertEquals("Bearer hf_one", token.header());
        Files.writeString(file, "Authorization: Bearer hf_two\n");
        Files.setLastModifiedTime(file, FileTime.fromMillis(1));
        assertEquals("Bearer hf_two", token.header());
        Files.delete(file);
        assertEquals("Bearer hf_two", token.header(), "the file is being replaced");
        assertThrows(InvalidArgumentException.class, () -> AccessToken.file(file));
    }

    @Test
    void anErrorDoesNotShowTheAccessToken() {
        assertEquals("Bearer hf_one", AccessToken.text("hf_one\r\n").header());
        var error = assertThrows(InvalidArgumentException.class, () -> AccessToken.text("hf_secret\r\nx"));
        assertFalse(error.getMessage().contains("secret"));
    }

    /** A thread in a synchronized block or method that waits for I/O holds its carrier thread. */
    @Test
    void noCodeIsSynchronized() throws IOException {
        try (Stream<Path> files = Files.walk(Path.of("src/main/java"))) {
            for (Path file : files.filter(path -> path.toString().endsWith(".java")).toList()) {
                assertFalse(Files.readString(file).contains("synchronized "), file.toString());
            }
        }
    }

    @Test
    void aLossReadsLikeASentence() {
        assertEquals("an operator force-released the lock: host burnt down",
                new Loss(Loss.Cause.FORCE_RELEASED, "host burnt down").toString());
        assertEquals("the session has ended", Loss.SESSION_ENDED.toString());
    }
}
