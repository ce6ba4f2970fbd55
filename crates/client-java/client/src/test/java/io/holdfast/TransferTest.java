package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Transfers, sharded locks and groups on a healthy cluster. */
@Timeout(120)
class TransferTest {
    private static final Duration WAIT = Duration.ofSeconds(20);

    @RegisterExtension
    static final TestCluster cluster = TestCluster.of(1);

    private final Holdfast one = cluster.client();
    private final Holdfast two = cluster.client();

    @Test
    void theReceiverHoldsTheLockWithANewToken() throws Exception {
        try (OpenSession session = two.openSession(); Guard guard = one.lock("transfer/1").tryAcquire()) {
            session.ensure();
            long token = guard.transfer(session.name());
            assertTrue(token > guard.token());
            LostException lost = assertThrows(LostException.class, guard::ensure);
            assertEquals(Loss.Cause.TRANSFERRED, lost.loss().cause());
            assertFalse(guard.isHeld());
            assertFalse(guard.lost().toCompletableFuture().isDone(), "the program has given the lock away");
            Guard received = two.lock("transfer/1").waitAtMost(WAIT).receiveTransfer();
            assertEquals(List.of(token, Mode.EXCLUSIVE), List.of(received.token(), received.mode()));
            received.ensure();
            assertThrows(BusyException.class, () -> one.lock("transfer/1").tryAcquire());
            received.downgrade(Mode.SHARED);
            received.release();
            assertEquals(List.of(), one.lockState("transfer/1").holders());
        }
    }

    @Test
    void aRefusedTransferLeavesTheLock() {
        Guard guard = one.lock("transfer/2").owner("job").tryAcquire();
        assertThrows(InvalidArgumentException.class, () -> guard.transfer("nobody-is-there"));
        guard.ensure();
        assertThrows(InvalidArgumentException.class, () -> guard.transfer(""));
        try (Guard again = one.lock("transfer/2").owner("job").tryAcquire()) {
            assertEquals(guard.token(), again.token());
            assertThrows(InvalidArgumentException.class, () -> guard.transfer("nobody-is-there"));
        }
        assertEquals(guard.token(), one.lockState("transfer/2").holders().get(0).token());
        guard.release();
    }

    @Test
    void noTransferIsBusyAndAcquiresNothing() {
        LockRequest request = one.lock("transfer/3").waitAtMost(Duration.ofMillis(300));
        BusyException busy = assertThrows(BusyException.class, request::receiveTransfer);
        assertEquals(Codes.NOT_YET, busy.code());
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, one.lock("transfer/3")::receiveTransfer);
        assertEquals(List.of(), one.lockState("transfer/3").holders());
    }

    @Test
    void eachShardIsASeparateLock() throws Exception {
        LockRequest any = one.lock("stock").shards(3);
        List<Guard> guards = List.of(any.tryAcquire(), any.tryAcquire(), any.tryAcquire());
        List<String> names = guards.stream().map(Guard::lock).sorted().toList();
        assertEquals(List.of("stock/0", "stock/1", "stock/2"), names);
        assertThrows(BusyException.class, any::tryAcquire);
        Guard second = guards.get(1);
        int shard = second.shard().orElseThrow();
        second.release();
        Guard again = one.lock("stock").shard(shard).upgradable().tryAcquire();
        assertTrue(again.upgrade(WAIT) > second.token());
        assertEquals(OptionalInt.of(shard), again.shard());
        again.ensure();
        Stream.of(guards.get(0), again, guards.get(2)).forEach(Guard::release);
        try (Guard plain = one.lock("plain").tryAcquire()) {
            assertEquals(OptionalInt.empty(), plain.shard());
        }
    }

    @Test
    void aGroupListsItsMembersUntilTheyLeave() throws Exception {
        Group group = one.group("web");
        BlockingQueue<Map<String, String>> seen = new LinkedBlockingQueue<>();
        try (Watch watch = two.group("web").watch(seen::add)) {
            expect(group, seen, Map.of());
            Membership first = group.join("10.0.0.1:80");
            expect(group, seen, Map.of(first.session(), "10.0.0.1:80"));
            first.setValue("\"\\\u00fc\n");
            expect(group, seen, Map.of(first.session(), "\"\\\u00fc\n"));
            Membership second = two.group("web").join("10.0.0.2:80");
            expect(group, seen, Map.of(first.session(), "\"\\\u00fc\n", second.session(), "10.0.0.2:80"));
            try (Membership below = one.group("web/eu").join("of another group")) {
                first.leave();
                first.leave();
                below.ensure();
            }
            expect(group, seen, Map.of(second.session(), "10.0.0.2:80"));
            assertThrows(LostException.class, () -> first.setValue("late"));
            second.ensure();
        }
        // The end of the session ends the membership.
        two.close();
        assertEquals(Map.of(), group.members());
    }

    private static void expect(Group group, BlockingQueue<Map<String, String>> seen, Map<String, String> wanted)
            throws InterruptedException {
        assertEquals(wanted, seen.poll(25, TimeUnit.SECONDS));
        assertEquals(wanted, group.members());
    }
}
