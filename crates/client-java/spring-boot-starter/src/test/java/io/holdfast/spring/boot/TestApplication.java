package io.holdfast.spring.boot;

import io.holdfast.TestCluster;
import java.util.ArrayList;
import java.util.List;
import org.springframework.boot.Banner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;

/** Applications with the auto-configuration of Spring Boot. */
final class TestApplication {
    private TestApplication() {}

    /** Starts an application whose locks are free 6 s after its death. */
    static ConfigurableApplicationContext start(Class<?> source, String addresses, String... properties) {
        List<String> all = new ArrayList<>(List.of(properties));
        all.add("holdfast.addresses=" + addresses);
        all.add("holdfast.ttl=6s");
        all.add("logging.level.root=warn");
        // Otherwise the client can close during a job, which then ends with a LostException.
        all.add("spring.task.scheduling.shutdown.await-termination=true");
        all.add("spring.task.scheduling.shutdown.await-termination-period=10s");
        all.add("spring.quartz.wait-for-jobs-to-complete-on-shutdown=true");
        SpringApplication application = new SpringApplicationBuilder(source)
                .web(WebApplicationType.NONE)
                .bannerMode(Banner.Mode.OFF)
                .registerShutdownHook(false)
                .build();
        return application.run(all.stream().map(property -> "--" + property).toArray(String[]::new));
    }

    static ConfigurableApplicationContext start(Class<?> source, TestCluster cluster, String... properties) {
        return start(source, String.join(",", cluster.addresses()), properties);
    }
}
