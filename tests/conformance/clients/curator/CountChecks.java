import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.CachedAtomicLong;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.PromotedToLock;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.recipes.shared.SharedValue;
import org.apache.curator.framework.recipes.shared.VersionedValue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;

/** Shared numbers, shared values and queues. */
final class CountChecks {
    static void addTo(Map<String, Recipes.Check> checks) {
        checks.put("shared-count", CountChecks::sharedCount);
        checks.put("shared-value", CountChecks::sharedValue);
        checks.put("atomic-long", CountChecks::atomicLong);
        checks.put("atomic-long-under-load", CountChecks::atomicLongUnderLoad);
        checks.put("queue", CountChecks::queue);
    }

    private static void sharedCount(Recipes.Place place) throws Exception {
        SharedCount a = new SharedCount(place.client(), place.path, 7);
        SharedCount b = new SharedCount(place.client(), place.path, 9);
        AtomicInteger told = new AtomicInteger();
        a.start();
        b.start();
        b.addListener(new SharedCountListener() {
            @Override
            public void countHasChanged(SharedCountReader count, int value) {
                told.set(value);
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {
            }
        });
        Recipes.expectEqual(7, b.getCount(), "the first one's seed");
        a.setCount(10);
        Recipes.until("the other to hear of 10", () -> told.get() == 10);
        VersionedValue<Integer> seen = b.getVersionedValue();
        Recipes.expect(a.trySetCount(a.getVersionedValue(), 11), "a change of what was seen last");
        Recipes.expect(!b.trySetCount(seen, 12), "a change of what is old to be refused");
        Recipes.until("the other to have 11", () -> b.getCount() == 11);
        a.close();
        b.close();
    }

    private static void sharedValue(Recipes.Place place) throws Exception {
        SharedValue a = new SharedValue(place.client(), place.path, Recipes.bytes("seed"));
        SharedValue b = new SharedValue(place.client(), place.path, Recipes.bytes("other"));
        a.start();
        b.start();
        Recipes.expectEqual("seed", Recipes.text(b.getValue()), "the seed");
        Recipes.expect(b.trySetValue(b.getVersionedValue(), Recipes.bytes("next")), "a change");
        Recipes.until("the other to see it", () -> Recipes.text(a.getValue()).equals("next"));
        a.close();
        b.close();
    }

    private static void atomicLong(Recipes.Place place) throws Exception {
        DistributedAtomicLong number = new DistributedAtomicLong(place.client(), place.path, new RetryNTimes(10, 10));
        Recipes.expect(number.initialize(5L), "to be set at first");
        Recipes.expect(!number.initialize(6L), "not to be set again");
        AtomicValue<Long> sum = number.add(3L);
        Recipes.expect(sum.succeeded() && sum.preValue() == 5 && sum.postValue() == 8, "5 + 3");
        Recipes.expect(!number.compareAndSet(5L, 1L).succeeded(), "compare-and-set of an old value to be refused");
        Recipes.expect(number.compareAndSet(8L, 1L).succeeded(), "compare-and-set of the value");
        CachedAtomicLong cached = new CachedAtomicLong(number, 10);
        Recipes.expectEqual(2L, cached.next().postValue(), "the next number");
    }

    private static void atomicLongUnderLoad(Recipes.Place place) throws Exception {
        int callers = 4;
        int each = 25;
        Future<?>[] running = new Future<?>[callers];
        for (int i = 0; i < callers; i++) {
            PromotedToLock lock = PromotedToLock.builder()
                .lockPath(place.path + "/lock").timeout(20, TimeUnit.SECONDS).retryPolicy(new RetryNTimes(50, 5)).build();
            DistributedAtomicLong number =
                new DistributedAtomicLong(place.client(), place.path + "/number", new RetryNTimes(3, 5), lock);
            running[i] = place.meanwhile(() -> {
                for (int turn = 0; turn < each; turn++) {
                    Recipes.expect(number.increment().succeeded(), "an increment to succeed");
                }
                return null;
            });
        }
        for (Future<?> caller : running) {
            caller.get(60, TimeUnit.SECONDS);
        }
        DistributedAtomicLong number =
            new DistributedAtomicLong(place.client(), place.path + "/number", new RetryNTimes(3, 5));
        Recipes.expectEqual((long) callers * each, number.get().postValue(), "the sum");
    }

    private static final class Text implements QueueSerializer<String> {
        @Override
        public byte[] serialize(String item) {
            return Recipes.bytes(item);
        }

        @Override
        public String deserialize(byte[] bytes) {
            return Recipes.text(bytes);
        }
    }

    private static void queue(Recipes.Place place) throws Exception {
        StringBuffer taken = new StringBuffer();
        QueueConsumer<String> consumer = new QueueConsumer<>() {
            @Override
            public void consumeMessage(String message) {
                taken.append(message);
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {
            }
        };
        DistributedQueue<String> in = QueueBuilder
            .<String>builder(place.client(), null, new Text(), place.path).buildQueue();
        DistributedQueue<String> out = QueueBuilder
            .builder(place.client(), consumer, new Text(), place.path).lockPath(place.path + "-locks").buildQueue();
        in.start();
        for (String item : "a b c d e".split(" ")) {
            in.put(item);
        }
        out.start();
        Recipes.until("five items", () -> taken.length() == 5);
        Recipes.expectEqual("abcde", taken.toString(), "the order of the items");
        in.close();
        out.close();
    }
}
