import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;

/** Curator's locks and semaphores. */
final class LockChecks {
    static void addTo(Map<String, Recipes.Check> checks) {
        checks.put("mutex-reenters-and-excludes", LockChecks::mutex);
        checks.put("mutex-serves-in-order", LockChecks::mutexInOrder);
        checks.put("mutex-is-lost-with-its-session", LockChecks::mutexAndExpiry);
        checks.put("mutex-is-revoked", LockChecks::revoke);
        checks.put("read-write-lock", LockChecks::readWrite);
        checks.put("read-write-lock-downgrades", LockChecks::downgrade);
        checks.put("semaphore-v2", LockChecks::semaphore);
        checks.put("semaphore-v2-never-exceeds-its-limit", LockChecks::semaphoreUnderLoad);
        checks.put("semaphore-mutex", LockChecks::semaphoreMutex);
        checks.put("multi-lock", LockChecks::multiLock);
    }

    private static void mutex(Recipes.Place place) throws Exception {
        InterProcessMutex first = new InterProcessMutex(place.client(), place.path);
        InterProcessMutex second = new InterProcessMutex(place.client(), place.path);
        first.acquire();
        first.acquire();
        Recipes.expect(!second.acquire(300, TimeUnit.MILLISECONDS), "the second to be refused");
        first.release();
        Recipes.expect(!second.acquire(300, TimeUnit.MILLISECONDS), "the second to be refused after one of two releases");
        first.release();
        Recipes.expect(second.acquire(10, TimeUnit.SECONDS), "the second to hold it");
        Recipes.expectEqual(1, second.getParticipantNodes().size(), "participants");
        second.release();
        Recipes.expectEqual(0, second.getParticipantNodes().size(), "participants at the end");
    }

    private static void mutexInOrder(Recipes.Place place) throws Exception {
        InterProcessMutex held = new InterProcessMutex(place.client(), place.path);
        held.acquire();
        ConcurrentLinkedQueue<Integer> order = new ConcurrentLinkedQueue<>();
        Future<?>[] waiting = new Future<?>[5];
        for (int i = 0; i < waiting.length; i++) {
            int number = i;
            InterProcessMutex mutex = new InterProcessMutex(place.client(), place.path);
            waiting[i] = place.meanwhile(() -> {
                mutex.acquire();
                order.add(number);
                mutex.release();
                return null;
            });
            Recipes.until("waiter " + i + " to queue", () -> held.getParticipantNodes().size() == number + 2);
        }
        held.release();
        for (Future<?> done : waiting) {
            Recipes.within20s(done);
        }
        Recipes.expectEqual(List.of(0, 1, 2, 3, 4), List.copyOf(order), "the order of the grants");
    }

    private static void mutexAndExpiry(Recipes.Place place) throws Exception {
        CuratorFramework doomed = place.client();
        InterProcessMutex first = new InterProcessMutex(doomed, place.path);
        InterProcessMutex second = new InterProcessMutex(place.client(), place.path);
        first.acquire();
        Future<Boolean> waits = place.meanwhile(() -> second.acquire(20, TimeUnit.SECONDS));
        Recipes.until("the second to queue", () -> second.getParticipantNodes().size() == 2);
        place.expire(doomed);
        Recipes.expect(waits.get(25, TimeUnit.SECONDS), "the second to hold it once the first one's session has ended");
    }

    private static void revoke(Recipes.Place place) throws Exception {
        InterProcessMutex mutex = new InterProcessMutex(place.client(), place.path);
        AtomicInteger asked = new AtomicInteger();
        mutex.makeRevocable(ignored -> asked.incrementAndGet());
        mutex.acquire();
        CuratorFramework other = place.client();
        Collection<String> nodes = mutex.getParticipantNodes();
        Revoker.attemptRevoke(other, nodes.iterator().next());
        Recipes.until("the holder to be asked to release", () -> asked.get() == 1);
        mutex.release();
    }

    private static void readWrite(Recipes.Place place) throws Exception {
        InterProcessReadWriteLock a = new InterProcessReadWriteLock(place.client(), place.path);
        InterProcessReadWriteLock b = new InterProcessReadWriteLock(place.client(), place.path);
        InterProcessReadWriteLock c = new InterProcessReadWriteLock(place.client(), place.path);
        Recipes.expect(a.readLock().acquire(10, TimeUnit.SECONDS), "a reads");
        Recipes.expect(b.readLock().acquire(10, TimeUnit.SECONDS), "b reads together with a");
        Future<Boolean> writes = place.meanwhile(() -> {
            boolean held = c.writeLock().acquire(20, TimeUnit.SECONDS);
            c.writeLock().release();
            return held;
        });
        Recipes.until("the writer to queue", () -> c.writeLock().getParticipantNodes().size() == 1);
        Recipes.expect(!writes.isDone(), "the writer to wait for the readers");
        a.readLock().release();
        Recipes.expect(!writes.isDone(), "the writer to wait for the second reader too");
        b.readLock().release();
        Recipes.expect(Recipes.within20s(writes), "the writer to have held it");
        Recipes.expect(a.readLock().acquire(10, TimeUnit.SECONDS), "a to read after the writer");
        a.readLock().release();
    }

    private static void downgrade(Recipes.Place place) throws Exception {
        InterProcessReadWriteLock a = new InterProcessReadWriteLock(place.client(), place.path);
        InterProcessReadWriteLock b = new InterProcessReadWriteLock(place.client(), place.path);
        a.writeLock().acquire();
        Recipes.expect(a.readLock().acquire(10, TimeUnit.SECONDS), "a writer to read as well");
        Recipes.expect(!b.readLock().acquire(300, TimeUnit.MILLISECONDS), "another reader to wait for the writer");
        a.writeLock().release();
        Recipes.expect(b.readLock().acquire(10, TimeUnit.SECONDS), "another reader beside the downgraded one");
        b.readLock().release();
        a.readLock().release();
    }

    private static void semaphore(Recipes.Place place) throws Exception {
        InterProcessSemaphoreV2 a = new InterProcessSemaphoreV2(place.client(), place.path, 3);
        InterProcessSemaphoreV2 b = new InterProcessSemaphoreV2(place.client(), place.path, 3);
        Collection<Lease> two = a.acquire(2, 10, TimeUnit.SECONDS);
        Lease third = b.acquire(10, TimeUnit.SECONDS);
        Recipes.expect(two != null && third != null, "three leases");
        Recipes.expect(b.acquire(300, TimeUnit.MILLISECONDS) == null, "the fourth to be refused");
        Recipes.expectEqual(3, b.getParticipantNodes().size(), "leases");
        a.returnAll(two);
        Lease again = b.acquire(10, TimeUnit.SECONDS);
        Recipes.expect(again != null, "one after two were returned");
        b.returnLease(again);
        b.returnLease(third);
    }

    private static void semaphoreUnderLoad(Recipes.Place place) throws Exception {
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        Future<?>[] callers = new Future<?>[6];
        for (int i = 0; i < callers.length; i++) {
            InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(place.client(), place.path, 2);
            callers[i] = place.meanwhile(() -> {
                for (int turn = 0; turn < 10; turn++) {
                    Lease lease = semaphore.acquire();
                    most.accumulateAndGet(inside.incrementAndGet(), Math::max);
                    Thread.sleep(2);
                    inside.decrementAndGet();
                    semaphore.returnLease(lease);
                }
                return null;
            });
        }
        for (Future<?> caller : callers) {
            caller.get(60, TimeUnit.SECONDS);
        }
        Recipes.expect(most.get() <= 2, "two at most inside, not " + most.get());
    }

    private static void semaphoreMutex(Recipes.Place place) throws Exception {
        InterProcessSemaphoreMutex a = new InterProcessSemaphoreMutex(place.client(), place.path);
        InterProcessSemaphoreMutex b = new InterProcessSemaphoreMutex(place.client(), place.path);
        a.acquire();
        Recipes.expect(!b.acquire(300, TimeUnit.MILLISECONDS), "the second to be refused");
        a.release();
        Recipes.expect(b.acquire(10, TimeUnit.SECONDS), "the second to hold it");
        b.release();
    }

    private static void multiLock(Recipes.Place place) throws Exception {
        CuratorFramework client = place.client();
        List<String> paths = List.of(place.path + "/a", place.path + "/b");
        InterProcessMultiLock both = new InterProcessMultiLock(client, paths);
        InterProcessMutex one = new InterProcessMutex(place.client(), place.path + "/b");
        both.acquire();
        Recipes.expect(!one.acquire(300, TimeUnit.MILLISECONDS), "one of the two to be held");
        both.release();
        Recipes.expect(one.acquire(10, TimeUnit.SECONDS), "it to be free again");
        Recipes.expect(!both.acquire(500, TimeUnit.MILLISECONDS), "both to be refused while one is held");
        one.release();
        Recipes.expect(both.acquire(10, TimeUnit.SECONDS), "both, after all");
        both.release();
    }
}
