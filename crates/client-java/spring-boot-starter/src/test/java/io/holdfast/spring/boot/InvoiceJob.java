package io.holdfast.spring.boot;

import io.holdfast.BusyException;
import io.holdfast.Guard;
import io.holdfast.Holdfast;
import java.util.function.Consumer;
import org.quartz.Job;
import org.quartz.JobExecutionContext;

/** A job of Quartz that runs in one scheduler at a time. As a program, a scheduler whose job never ends. */
class InvoiceJob implements Job {
    static volatile Consumer<Guard> work = Guard::ensure;

    private final Holdfast holdfast;

    InvoiceJob(Holdfast holdfast) {
        this.holdfast = holdfast;
    }

    // readme
    @Override
    public void execute(JobExecutionContext context) {
        try (Guard guard = holdfast.lock("quartz/" + context.getJobDetail().getKey()).tryAcquire()) {
            sendInvoices(guard);
        } catch (BusyException e) {
            // Another scheduler runs the job.
        }
    }
    // end

    private void sendInvoices(Guard guard) {
        work.accept(guard);
    }

    private static void runUntilLost(Guard guard) {
        System.out.println("token " + guard.token());
        guard.lost().toCompletableFuture().join();
    }

    public static void main(String[] arguments) {
        work = InvoiceJob::runUntilLost;
        TestApplication.start(InvoiceJobTest.Invoices.class, arguments[0]);
    }
}
