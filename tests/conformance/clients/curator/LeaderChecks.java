import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;

/** Leaders and barriers. */
final class LeaderChecks {
    static void addTo(Map<String, Recipes.Check> checks) {
        checks.put("leader-latch", LeaderChecks::latch);
        checks.put("leader-latch-and-expiry", LeaderChecks::latchAndExpiry);
        checks.put("leader-selector", LeaderChecks::selector);
        checks.put("barrier", LeaderChecks::barrier);
        checks.put("double-barrier", LeaderChecks::doubleBarrier);
    }

    private static long leaders(List<LeaderLatch> latches) {
        return latches.stream().filter(LeaderLatch::hasLeadership).count();
    }

    private static void latch(Recipes.Place place) throws Exception {
        List<LeaderLatch> latches = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            LeaderLatch latch = new LeaderLatch(place.client(), place.path, "latch-" + i);
            latch.start();
            latches.add(latch);
        }
        while (!latches.isEmpty()) {
            Recipes.until("one leader", () -> leaders(latches) == 1);
            LeaderLatch leader = latches.stream().filter(LeaderLatch::hasLeadership).findFirst().get();
            Recipes.expectEqual(leader.getId(), latches.get(0).getLeader().getId(), "the leader that others see");
            // They come in the background.
            int wanted = latches.size();
            Recipes.until("all to take part", () -> leader.getParticipants().size() == wanted);
            latches.remove(leader);
            leader.close();
        }
    }

    private static void latchAndExpiry(Recipes.Place place) throws Exception {
        CuratorFramework doomed = place.client();
        LeaderLatch first = new LeaderLatch(doomed, place.path, "first");
        LeaderLatch second = new LeaderLatch(place.client(), place.path, "second");
        first.start();
        Recipes.expect(first.await(20, TimeUnit.SECONDS), "the first to lead");
        second.start();
        Recipes.until("two to take part", () -> second.getParticipants().size() == 2);
        place.expire(doomed);
        Recipes.until("the second to lead", second::hasLeadership);
        Recipes.until("the first to follow", () -> !first.hasLeadership());
        Recipes.until("the first to take part again", () -> second.getParticipants().size() == 2);
        second.close();
        Recipes.expect(first.await(20, TimeUnit.SECONDS), "the first to lead again");
        first.close();
    }

    private static void selector(Recipes.Place place) throws Exception {
        AtomicInteger leading = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        CountDownLatch turns = new CountDownLatch(9);
        List<LeaderSelector> selectors = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            LeaderSelector selector = new LeaderSelector(place.client(), place.path, new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework client) throws Exception {
                    most.accumulateAndGet(leading.incrementAndGet(), Math::max);
                    Thread.sleep(5);
                    leading.decrementAndGet();
                    turns.countDown();
                }
            });
            selector.autoRequeue();
            selector.start();
            selectors.add(selector);
        }
        Recipes.expect(turns.await(30, TimeUnit.SECONDS), "nine turns of leadership");
        Recipes.expectEqual(1, most.get(), "leaders at once");
        selectors.forEach(LeaderSelector::close);
    }

    private static void barrier(Recipes.Place place) throws Exception {
        DistributedBarrier barrier = new DistributedBarrier(place.client(), place.path + "/barrier");
        barrier.setBarrier();
        CuratorFramework other = place.client();
        other.sync().forPath(place.path + "/barrier");
        DistributedBarrier waiting = new DistributedBarrier(other, place.path + "/barrier");
        Recipes.expect(!waiting.waitOnBarrier(300, TimeUnit.MILLISECONDS), "the barrier to hold");
        Future<Boolean> passed = place.meanwhile(() -> waiting.waitOnBarrier(20, TimeUnit.SECONDS));
        barrier.removeBarrier();
        Recipes.expect(Recipes.within20s(passed), "the barrier to open");
    }

    private static void doubleBarrier(Recipes.Place place) throws Exception {
        int members = 4;
        AtomicInteger entered = new AtomicInteger();
        AtomicInteger left = new AtomicInteger();
        CyclicBarrier allEntered = new CyclicBarrier(members);
        List<Future<?>> running = new ArrayList<>();
        for (int i = 0; i < members; i++) {
            DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(place.client(), place.path, members);
            running.add(place.meanwhile(() -> {
                entered.incrementAndGet();
                Recipes.expect(barrier.enter(20, TimeUnit.SECONDS), "to enter");
                Recipes.expectEqual(members, entered.get(), "members that had come when one was let in");
                allEntered.await(20, TimeUnit.SECONDS);
                left.incrementAndGet();
                Recipes.expect(barrier.leave(20, TimeUnit.SECONDS), "to leave");
                Recipes.expectEqual(members, left.get(), "members that wanted to leave when one was let out");
                return null;
            }));
        }
        for (Future<?> member : running) {
            member.get(60, TimeUnit.SECONDS);
        }
    }
}
