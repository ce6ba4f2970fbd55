//! A server that falls in mid-run: what was measured until then, why no more, and the next case on new servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use holdfast_comparison::catalogue::named;
use holdfast_comparison::record::{Load, Locks};
use holdfast_comparison::servers::ServerKind;
use holdfast_comparison::servers::group::TTL;
use holdfast_comparison::workload::{Case, LazyServers, Plan, measure};
use holdfast_comparison::{Hold, Limitation, LockClient, LockFuture, LockUsage, System};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::tool::is_here;
use crate::until::until;

/// Counts the acquires of another system.
struct Counted {
    system: Arc<dyn System>,
    acquires: Arc<AtomicU64>,
}

struct CountedClient {
    client: Box<dyn LockClient>,
    acquires: Arc<AtomicU64>,
}

impl System for Counted {
    fn name(&self) -> &'static str {
        self.system.name()
    }

    fn limitations(&self) -> &'static [Limitation] {
        self.system.limitations()
    }

    fn client(&self) -> LockFuture<'_, Box<dyn LockClient>> {
        Box::pin(async move {
            let client = self.system.client().await?;
            let acquires = Arc::clone(&self.acquires);
            Ok(Box::new(CountedClient { client, acquires }) as Box<dyn LockClient>)
        })
    }
}

impl LockClient for CountedClient {
    fn acquire<'a>(&'a mut self, lock: &'a str, patience: Duration) -> LockFuture<'a, Hold> {
        self.acquires.fetch_add(1, SeqCst);
        self.client.acquire(lock, patience)
    }

    fn release(&mut self, hold: Hold) -> LockFuture<'_, ()> {
        self.client.release(hold)
    }

    fn usage(&self) -> LockUsage {
        self.client.usage()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_in_mid_run_is_trouble_and_the_next_case_has_a_new_one() {
    if !is_here(ServerKind::Redis) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let listed = named("redis-set-nx-px").unwrap();
    let case = Case { locks: Locks::Spread, load: Load::Closed, clients: 2 };
    let window = Duration::from_secs(1);
    let plan = Plan { cases: vec![case], repetitions: 1, warmup: Duration::ZERO, window };
    let mut servers = LazyServers::closed(ServerKind::Redis);
    let stage = servers.stage(directory.path()).await.unwrap();
    let system = stage.system(listed, TTL).await.unwrap();
    let pid = Pid::from_raw(i32::try_from(stage.servers[0].pid()).unwrap());
    let acquires = Arc::new(AtomicU64::new(0));
    let counted: Arc<dyn System> = Arc::new(Counted { system, acquires: Arc::clone(&acquires) });
    let measuring = tokio::spawn(async move { measure(&counted, &case, &plan, || None).await });
    until("clients at work", || acquires.load(SeqCst) > 20).await;
    kill(pid, Signal::SIGKILL).unwrap();
    let measured = measuring.await.unwrap().unwrap();
    assert!(measured.errors["unreachable"] > 0, "{measured:?}");
    let fallen = servers.fallen().unwrap();
    assert!(fallen.contains("redis-server has ended in mid-run"), "{fallen}");
    let plan = Plan {
        cases: vec![case],
        repetitions: 1,
        warmup: Duration::ZERO,
        window: Duration::from_millis(200),
    };
    let (measured, trouble) = servers.measured(listed, &case, &plan, directory.path()).await;
    assert_eq!(trouble, None);
    assert!(measured.unwrap().cycles > 0);
}
