package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.FakeNode.Answer;
import io.holdfast.FakeNode.Received;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Watches whose listener throws, or whose client closes. */
@Timeout(180)
class WatchTest {
    /** Starts a watch whose listener runs a task for each change. */
    private interface Start {
        Watch watch(Holdfast client, Runnable listener);
    }

    private static final Map<String, Start> WATCHES = Map.of(
            "tree", (client, listener) -> client.tree().watch("/groups/web/", treeListener(listener)),
            "election", (client, listener) -> client.election("db").observe(leader -> listener.run()),
            "group", (client, listener) -> client.group("web").watch(members -> listener.run()));

    private final BlockingQueue<Received> parked = new LinkedBlockingQueue<>();
    private final AtomicInteger delivered = new AtomicInteger();
    private FakeNode node;

    private static Watch.Listener treeListener(Runnable listener) {
        return new Watch.Listener() {
            @Override
            public void changed(Watch.Change change) {
                listener.run();
            }

            @Override
            public void missed() {
                listener.run();
            }
        };
    }

    /**
     * A client of a node with two changes after revision 5, and none after revision 7. The function gets the answer to each
     * read, which has another value.
     */
    private Holdfast client(UnaryOperator<Answer> answers) {
        AtomicInteger reads = new AtomicInteger();
        String change = "{\"kind\":\"changed\",\"path\":\"/groups/web/s\",\"revision\":";
        node = FakeNode.of(call -> {
            String since = call.query().getOrDefault("since", "");
            if (call.query().containsKey("children")) {
                return new Answer(200, "{\"children\":[{\"name\":\"s\",\"kind\":\"ephemeral\"}]}");
            } else if (!call.name().equals("GET /v1/watch")) {
                String leader = "{\"session\":\"s\",\"token\":7,\"value\":\"" + reads.incrementAndGet() + "\"}";
                return answers.apply(new Answer(200, "{\"election\":\"db\",\"leader\":" + leader + "}"));
            } else if (since.isEmpty()) {
                return new Answer(200, "{\"events\":[],\"revision\":5}");
            } else if (since.equals("5")) {
                return new Answer(200, "{\"events\":[" + change + "6}," + change + "7}],\"revision\":7}");
            }
            parked.add(call);
            return Answer.NONE;
        });
        return node.client(options -> options);
    }

    @AfterEach
    void close() {
        node.close();
    }

    private static void awaitEndOfWatches() throws InterruptedException {
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            if (thread.getName().equals("holdfast-watch")) {
                thread.join(10_000);
                assertFalse(thread.isAlive());
            }
        }
    }

    @Test
    void aListenerThatThrowsGetsEachChangeOnce() throws Exception {
        List<Runnable> failures = List.of(() -> {
            throw new IllegalStateException("of the caller");
        }, () -> {
            throw new AssertionError("of the caller");
        });
        for (Map.Entry<String, Start> kind : WATCHES.entrySet()) {
            for (Runnable failure : failures) {
                delivered.set(0);
                Watch watch = kind.getValue().watch(client(answer -> answer), () -> {
                    delivered.incrementAndGet();
                    failure.run();
                });
                assertNotNull(parked.poll(10, TimeUnit.SECONDS), kind.getKey());
                // The state comes before the changes, except that of a tree.
                assertEquals(kind.getKey().equals("tree") ? 2 : 3, delivered.get(), kind.getKey());
                watch.close();
                node.close();
            }
        }
    }

    @Test
    void theCloseOfItsClientEndsAWatch() throws Exception {
        for (Map.Entry<String, Start> kind : WATCHES.entrySet()) {
            Holdfast client = client(answer -> answer);
            kind.getValue().watch(client, () -> { });
            assertNotNull(parked.poll(10, TimeUnit.SECONDS), kind.getKey());
            client.close();
            awaitEndOfWatches();
            assertTrue(parked.isEmpty(), kind.getKey());
            node.close();
        }
    }

    @Test
    void theCloseOfItsClientEndsThePauseOfAWatch() throws Exception {
        CountDownLatch isRefused = new CountDownLatch(1);
        Holdfast client = client(answer -> {
            isRefused.countDown();
            return Answer.refused(503, "", 60);
        });
        client.group("web").watch(members -> delivered.incrementAndGet());
        isRefused.await();
        client.close();
        awaitEndOfWatches();
    }

    @Test
    void aReadInProgressAtTheCloseIsNotDelivered() throws Exception {
        for (String kind : List.of("election", "group")) {
            for (boolean isOfClient : new boolean[] {true, false}) {
                CountDownLatch isReading = new CountDownLatch(1);
                CountDownLatch mayAnswer = new CountDownLatch(1);
                Holdfast client = client(answer -> {
                    isReading.countDown();
                    await(mayAnswer);
                    return answer;
                });
                Watch watch = WATCHES.get(kind).watch(client, delivered::incrementAndGet);
                isReading.await();
                if (isOfClient) {
                    client.close();
                } else {
                    watch.close();
                }
                mayAnswer.countDown();
                awaitEndOfWatches();
                assertEquals(0, delivered.get(), kind);
                node.close();
            }
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    @Test
    void aListenerThatClosesItsClientGetsNoMoreChanges() throws Exception {
        for (Map.Entry<String, Start> kind : WATCHES.entrySet()) {
            for (int last = 1; last <= 2; last++) {
                int closing = last;
                delivered.set(0);
                Holdfast client = client(answer -> answer);
                kind.getValue().watch(client, () -> {
                    if (delivered.incrementAndGet() == closing) {
                        client.close();
                    }
                });
                awaitEndOfWatches();
                assertEquals(closing, delivered.get(), kind.getKey());
                // The watch reads nothing for a change that it does not deliver.
                int reads = node.calls("GET /v1/elections/db").size() + node.calls("GET /v1/tree/groups/web/s").size();
                assertEquals(kind.getKey().equals("tree") ? 0 : closing, reads, kind.getKey());
                node.close();
            }
        }
    }
}
