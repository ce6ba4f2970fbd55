package io.holdfast;

import java.time.Duration;

/** A program that holds a lock and prints what it knows, for tests that pause it. */
final class HolderProcess {
    private HolderProcess() {}

    /** Arguments: addresses, lock, ttl. Prints {@code token N}, then {@code held} until {@code lost CAUSE}. */
    public static void main(String[] arguments) throws InterruptedException {
        Holdfast client = Holdfast.builder(arguments[0]).ttl(Duration.parse(arguments[2])).build();
        Guard guard = client.lock(arguments[1]).acquire();
        System.out.println("token " + guard.token());
        while (true) {
            try {
                guard.ensure();
            } catch (LostException e) {
                System.out.println("lost " + e.loss().cause().code());
                break;
            }
            System.out.println("held");
            Thread.sleep(20);
        }
        guard.onLost(loss -> System.out.println("event " + loss.cause().code()));
        Thread.sleep(5_000);
    }
}
