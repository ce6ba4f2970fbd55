package io.holdfast.spring.integration;

import io.holdfast.Guard;
import io.holdfast.Holdfast;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.event.EventListener;
import org.springframework.integration.leader.DefaultCandidate;
import org.springframework.integration.leader.event.OnGrantedEvent;
import org.springframework.integration.leader.event.OnRevokedEvent;
import org.springframework.integration.support.leader.LockRegistryLeaderInitiator;

/** An application of which one instance is the leader. As a program, it prints what happens. */
@Configuration(proxyBeanMethods = false)
class BillingNode {
    static final Duration TTL = Duration.ofSeconds(6);

    // readme
    @Bean
    HoldfastLockRegistry lockRegistry(Holdfast holdfast) {
        return new HoldfastLockRegistry(holdfast);          // the key KEY is the lock spring-integration/KEY
    }

    @Bean
    LockRegistryLeaderInitiator leader(HoldfastLockRegistry locks) {
        return new LockRegistryLeaderInitiator(locks, new DefaultCandidate("node-1", "billing"));
    }
    // end

    /** What a node sees of its leadership. */
    static final class Leadership {
        final BlockingQueue<Guard> granted = new LinkedBlockingQueue<>();
        final BlockingQueue<String> revoked = new LinkedBlockingQueue<>();
        private final HoldfastLockRegistry locks;

        Leadership(HoldfastLockRegistry locks) {
            this.locks = locks;
        }

        @EventListener
        void granted(OnGrantedEvent event) {
            granted.add(locks.obtain(event.getRole()).guard());
        }

        @EventListener
        void revoked(OnRevokedEvent event) {
            revoked.add(event.getRole());
        }
    }

    @Bean
    Leadership leadership(HoldfastLockRegistry locks) {
        return new Leadership(locks);
    }

    static AnnotationConfigApplicationContext start(String... addresses) {
        AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext();
        context.register(BillingNode.class);
        context.registerBean(Holdfast.class, () -> Holdfast.builder(addresses).ttl(TTL).build());
        context.refresh();
        return context;
    }

    public static void main(String[] addresses) throws InterruptedException {
        Leadership leadership = start(addresses).getBean(Leadership.class);
        System.out.println("granted " + leadership.granted.take().token());
        System.out.println("revoked " + leadership.revoked.take());
        Thread.sleep(60_000);
    }
}
