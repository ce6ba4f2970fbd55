//! A server that crashes during a case: the partial measurement, the failure, and the next case on new servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use clap::Parser;
use holdfast_measure::Settings;
use holdfast_measure::catalogue::named;
use holdfast_measure::lock::{
    Connector, HeldLock, LoadUsage, LockClient, LockFuture, LockSettings,
};
use holdfast_measure::record::{LoadLoop, LockLayout};
use holdfast_measure::servers::{LazyGroup, ServerKind};
use holdfast_measure::settings::{MeasureArguments, MeasureCommand};
use holdfast_measure::workload::{SpeedCase, SpeedPlan, measure, measure_case};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::skip::is_here;
use holdfast_lab::{DEADLINE, until};

/// Counts the acquires of another client.
struct CountedClient {
    client: Box<dyn LockClient>,
    acquires: Arc<AtomicU64>,
}

impl LockClient for CountedClient {
    fn acquire<'a>(&'a mut self, lock: &'a str, timeout: Duration) -> LockFuture<'a, HeldLock> {
        self.acquires.fetch_add(1, SeqCst);
        self.client.acquire(lock, timeout)
    }

    fn release(&mut self, held: HeldLock) -> LockFuture<'_, ()> {
        self.client.release(held)
    }

    fn usage(&self) -> LoadUsage {
        self.client.usage()
    }
}

fn counted(connector: Connector, acquires: Arc<AtomicU64>) -> Connector {
    Connector::new(move |_| {
        let (connector, acquires) = (connector.clone(), Arc::clone(&acquires));
        Box::pin(async move {
            let client = connector.client().await?;
            Ok(Box::new(CountedClient { client, acquires }) as Box<dyn LockClient>)
        })
    })
}

fn settings(directory: &std::path::Path) -> Settings {
    let directory = directory.display().to_string();
    let arguments = ["measure", "speed", "--directory", &directory];
    let MeasureCommand::Speed(arguments) = MeasureArguments::parse_from(arguments).command else {
        unreachable!("the command is speed")
    };
    Settings::of(&arguments).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_during_a_case_is_a_failure_and_the_next_case_has_a_new_one() {
    if !is_here(ServerKind::Redis) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let system = named("redis-set-nx-px").unwrap();
    let case = SpeedCase { locks: LockLayout::Spread, load: LoadLoop::Closed, clients: 2 };
    let plan = |millis| {
        let window = Duration::from_millis(millis);
        SpeedPlan { cases: vec![case], repetitions: 1, warmup: Duration::ZERO, window }
    };
    let mut servers = LazyGroup::new(ServerKind::Redis);
    let group = servers.get(directory.path()).await.unwrap();
    let connector = group.connector(system, LockSettings::default()).await.unwrap();
    let pid = Pid::from_raw(i32::try_from(group.servers[0].pid()).unwrap());
    let acquires = Arc::new(AtomicU64::new(0));
    let (connector, long) = (counted(connector, Arc::clone(&acquires)), plan(3_000));
    let measuring = tokio::spawn(async move { measure(&connector, &case, &long, || None).await });
    until("clients at work", DEADLINE, async || acquires.load(SeqCst) > 20).await;
    kill(pid, Signal::SIGKILL).unwrap();
    let measured = measuring.await.unwrap().unwrap();
    assert!(measured.errors["unreachable"] > 0, "{measured:?}");
    let crashed = servers.crashed().unwrap();
    assert!(crashed.contains("redis-server ended during the run"), "{crashed}");
    let settings = settings(directory.path());
    let (measured, failure) =
        measure_case(&mut servers, system, &case, &plan(200), &settings).await;
    assert_eq!(failure, None);
    assert!(measured.unwrap().cycles > 0);
}
