package io.holdfast.spring.boot;

import io.holdfast.BusyException;
import io.holdfast.Guard;
import io.holdfast.Holdfast;
import java.util.function.Consumer;
import org.springframework.boot.autoconfigure.ImportAutoConfiguration;
import org.springframework.boot.autoconfigure.task.TaskSchedulingAutoConfiguration;
import org.springframework.context.annotation.Configuration;
import org.springframework.scheduling.annotation.EnableScheduling;
import org.springframework.scheduling.annotation.Scheduled;

/** A job that runs in one instance of the application at a time. As a program, it runs until its lock is lost. */
@Configuration(proxyBeanMethods = false)
@ImportAutoConfiguration({HoldfastAutoConfiguration.class, TaskSchedulingAutoConfiguration.class})
@EnableScheduling
class Settlement {
    static volatile Consumer<Guard> work = Settlement::runUntilLost;

    private final Holdfast holdfast;

    Settlement(Holdfast holdfast) {
        this.holdfast = holdfast;
    }

    // readme
    @Scheduled(fixedDelay = 100)
    void settle() {
        try (Guard guard = holdfast.lock("settlement").tryAcquire()) {
            settle(guard);                                  // calls guard.ensure() before each write
        } catch (BusyException e) {
            // Another instance runs the job.
        }
    }
    // end

    private void settle(Guard guard) {
        work.accept(guard);
    }

    private static void runUntilLost(Guard guard) {
        System.out.println("token " + guard.token());
        guard.lost().toCompletableFuture().join();
        System.out.println("lost");
        guard.ensure();
    }

    public static void main(String[] arguments) {
        TestApplication.start(Settlement.class, arguments[0]);
    }
}
