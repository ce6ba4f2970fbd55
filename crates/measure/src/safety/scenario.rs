//! One sale under one fault scenario, from the first worker to the counts.
//!
//! Each step waits for a reported event, with a deadline. The first worker acquires the lock and halts during a sale.
//! The others queue behind it, and then the tool injects the fault. A live holder resumes after `ENOUGH` sales of
//! others or after [`SALE_MAX`]: within its lease, so it validly holds the lock. A lock that ends with its connection
//! has no lease; when its servers restart, its sale takes up to [`LONG_SALE_MAX`].

use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::{Instant, sleep_until};

use super::cluster::FaultCluster;
use super::counts::{SaleBooks, double_holders};
use super::fault::FaultScenario;
use super::inventory;
use super::message::{HaltAt, WorkerOrder, WorkerPlan};
use super::participant::Participant;
use super::workers::{SaleEvents, Workers};
use crate::plays::PlayLog;
use crate::servers::clock::{WallClock, now_ns};

/// The worker that halts while it holds the lock.
const HOLDER: usize = 0;
/// The names in the log of a play.
const HOLDER_NAME: &str = "worker-0";
const OTHERS: &str = "others";
/// The worker whose clock is ahead.
const FAST: usize = 1;
/// The number of sales of each worker before the fault.
const WARMUP_SALES: u32 = 3;
/// The number of sales of others after which the holder resumes.
const ENOUGH: usize = 5;
/// The longest sale of a live holder.
pub const SALE_MAX: Duration = Duration::from_millis(1_800);
/// The longest sale for a lock without a lease.
pub const LONG_SALE_MAX: Duration = Duration::from_secs(8);
const ISOLATION_MIN: Duration = Duration::from_secs(5);
const CLOCK_OFFSET: Duration = Duration::from_hours(1);
/// The time limit for the workers to connect, for the holder to halt, and for the sale to end.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub struct SaleSettings {
    /// This program, which is also the worker program.
    pub program: PathBuf,
    /// The number of workers, at least two.
    pub workers: usize,
    /// The initial stock.
    pub pieces: u64,
    /// The time between the read and the write.
    pub think: Duration,
    /// The time for which the lock outlives its holder, if the lock supports the setting.
    pub lease: Duration,
    /// Without a grant for this time after the fault, the lock counts as stuck.
    pub bound: Duration,
}

impl SaleSettings {
    /// Four workers, 100 pieces, 5 ms between reading and writing, leases of 3 s, stuck after 20 s.
    pub fn new(program: PathBuf) -> Self {
        Self {
            program,
            workers: 4,
            pieces: 100,
            think: Duration::from_millis(5),
            lease: Duration::from_secs(3),
            bound: Duration::from_secs(20),
        }
    }

    /// The maximum duration of a sale.
    pub fn timeout(&self) -> Duration {
        4 * STEP_TIMEOUT + self.bound + ISOLATION_MIN
    }
}

/// The result of a sale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaleOutcome {
    pub books: SaleBooks,
    /// Critical sections that began before the end of another.
    pub double_holders: u64,
    /// The time from the fault to the next entry of another worker.
    pub next_grant: Option<Duration>,
    /// Whether no other worker entered within the bound after the fault.
    pub stuck: bool,
    /// The token of the halted holder.
    pub halted_token: Option<u64>,
    /// The fence's error text for each rejected write.
    pub stale_writes: Vec<String>,
}

impl SaleOutcome {
    /// The failure of a sale that ended early. Only a sale that got stuck may leave pieces unsold.
    pub fn unsold(&self, pieces: u64) -> Option<String> {
        let sold = self.books.sold;
        (sold < pieces && !self.stuck).then(|| format!("only {sold} of {pieces} pieces were sold"))
    }
}

/// One sale on a cluster.
pub struct ScenarioRun<'a> {
    pub settings: &'a SaleSettings,
    /// The URL of the inventory's database.
    pub database: &'a str,
    /// A lock name that no earlier sale used.
    pub lock: &'a str,
    pub participant: Participant,
    pub scenario: FaultScenario,
    pub cluster: &'a mut FaultCluster,
    /// The steps of a paused holder.
    pub log: &'a PlayLog,
}

impl ScenarioRun<'_> {
    /// Runs the sale. The servers may be broken afterwards, see [`FaultScenario::leaves_servers_intact`].
    pub async fn run(self) -> Result<SaleOutcome, String> {
        let (settings, scenario) = (self.settings, self.scenario);
        let database = inventory::connect(self.database, "judge").await?;
        let fenced = self.participant.fenced;
        inventory::create(&database, self.lock, settings.pieces, fenced).await?;
        if scenario == FaultScenario::ServerClock {
            self.cluster.add_clocks().await?;
        }
        if scenario == FaultScenario::ReplicaPromoted {
            self.cluster.add_replica().await?;
        }
        let clock = (scenario == FaultScenario::ClientClock)
            .then(|| WallClock::new(&self.cluster.directory().join("client-clock")))
            .transpose()
            .map_err(|error| error.to_string())?;
        let mut steps = ScenarioSteps {
            workers: self.start_workers(clock.as_ref()).await?,
            run: self,
            fault_ns: 0,
            halted_token: None,
            clock,
        };
        let next = steps.run().await;
        let ScenarioSteps { mut workers, fault_ns, halted_token, .. } = steps;
        let error = workers.seen.error();
        workers.shut_down().await;
        let next = next.map_err(|failed| match error {
            Some(error) => format!("{failed}; the workers report: {error}"),
            None => failed,
        })?;
        Ok(SaleOutcome {
            books: inventory::books(&database, settings.pieces).await?,
            double_holders: double_holders(&workers.seen.sections()),
            next_grant: next.map(|next| Duration::from_nanos(next.saturating_sub(fault_ns))),
            stuck: scenario != FaultScenario::None && next.is_none(),
            halted_token,
            stale_writes: workers.seen.stale_writes,
        })
    }

    async fn start_workers(&self, clock: Option<&WallClock>) -> Result<Workers, String> {
        let (settings, mut workers) = (self.settings, Workers::default());
        for worker in 0..settings.workers {
            let plan = WorkerPlan {
                name: format!("worker-{worker}"),
                participant: self.participant.name(),
                addresses: self.cluster.addresses().starting_at(worker),
                lock: self.lock.to_owned(),
                lease_ms: holdfast_types::millis(settings.lease),
                database: self.database.to_owned(),
                think_ms: holdfast_types::millis(settings.think),
            };
            let variables = clock.filter(|_| worker == FAST).map(WallClock::variables);
            workers.start(&settings.program, &plan, &variables.unwrap_or_default()).await?;
        }
        Ok(workers)
    }
}

struct ScenarioSteps<'a> {
    run: ScenarioRun<'a>,
    workers: Workers,
    /// The time of the fault; zero before it.
    fault_ns: u64,
    halted_token: Option<u64>,
    clock: Option<WallClock>,
}

impl ScenarioSteps<'_> {
    /// Runs all steps. Returns the time of the first entry of another worker after the fault.
    async fn run(&mut self) -> Result<Option<u64>, String> {
        let workers = self.run.settings.workers;
        self.wait("the workers to connect", |seen| seen.connected.len() == workers).await?;
        if self.run.scenario == FaultScenario::None {
            self.sell_out(1).await?;
            return Ok(None);
        }
        self.order_all(WorkerOrder::Sell(WARMUP_SALES)).await;
        self.wait("the first sales", |seen| seen.orders_done.iter().all(|done| *done == 1)).await?;
        self.halt_the_holder().await?;
        self.inject().await?;
        let next = self.after().await?;
        // The run does not wait for a stuck lock again; a paused holder has resumed by now.
        if next.is_some() || self.run.scenario == FaultScenario::HolderPaused {
            self.sell_out(3).await?;
        }
        Ok(next)
    }

    async fn wait(
        &mut self,
        what: &str,
        wanted: impl Fn(&SaleEvents) -> bool,
    ) -> Result<(), String> {
        let holds = self.workers.until(Instant::now() + STEP_TIMEOUT, wanted).await;
        if holds {
            Ok(())
        } else {
            Err(format!("timed out after {STEP_TIMEOUT:?} waiting for {what}"))
        }
    }

    async fn order_all(&mut self, order: WorkerOrder) {
        for worker in 0..self.run.settings.workers {
            self.workers.order(worker, order).await;
        }
    }

    /// Halts the holder during its sale, and lets all others acquire the lock.
    async fn halt_the_holder(&mut self) -> Result<(), String> {
        if self.run.scenario == FaultScenario::ReplicaPromoted {
            self.run.cluster.cut_replication();
        }
        let is_paused = self.run.scenario == FaultScenario::HolderPaused;
        let at = if is_paused { HaltAt::AfterCheck } else { HaltAt::BeforeCheck };
        self.workers.order(HOLDER, WorkerOrder::SellAndHalt(at)).await;
        self.wait("the holder to halt", |seen| seen.halted.is_some()).await?;
        if let Some(halted) = self.workers.seen.halted {
            self.halted_token = halted.token;
            let text = format!("acquires the lock, has read a stock of {}", halted.stock);
            self.run.log.holds(HOLDER_NAME, halted.token, text);
        }
        for worker in (0..self.run.settings.workers).filter(|worker| *worker != HOLDER) {
            self.workers.order(worker, WorkerOrder::Sell(u32::MAX)).await;
        }
        let others = self.run.settings.workers - 1;
        // Without exclusion the others may have entered already.
        self.wait("the others to acquire", move |seen| {
            let acquiring = seen.acquiring.iter().filter(|acquiring| **acquiring).count();
            acquiring == others || seen.done_after(HOLDER, 0) > 0
        })
        .await
    }

    async fn inject(&mut self) -> Result<(), String> {
        self.fault_ns = now_ns();
        match self.run.scenario {
            FaultScenario::None => {}
            FaultScenario::HolderPaused => {
                self.workers.signal(HOLDER, Signal::SIGSTOP);
                self.run.log.note(HOLDER_NAME, "is paused (SIGSTOP)");
            }
            FaultScenario::HolderKilled => self.workers.kill(HOLDER).await,
            FaultScenario::ClientClock => {
                if let Some(clock) = &self.clock {
                    clock.set_ahead(CLOCK_OFFSET).map_err(|error| error.to_string())?;
                }
            }
            FaultScenario::ServersRestarted => {
                self.run.cluster.crash_all();
                self.run.cluster.restart_all()?;
            }
            FaultScenario::ReplicaPromoted => {
                self.run.cluster.crash_all();
                self.run.cluster.promote_replica().await?;
            }
            FaultScenario::ServerClock => self.run.cluster.set_clocks_ahead(CLOCK_OFFSET).await?,
            FaultScenario::LeaderIsolated => {
                let leader =
                    self.run.cluster.leader().await.ok_or("no node replies that it leads")?;
                self.fault_ns = now_ns();
                return self.isolate(leader).await;
            }
        }
        Ok(())
    }

    /// Pauses the leader while the sale continues, then resumes the leader.
    async fn isolate(&mut self, leader: usize) -> Result<(), String> {
        let (began, fault_ns) = (Instant::now(), self.fault_ns);
        self.run.cluster.signal(leader, Signal::SIGSTOP)?;
        self.resume_in_time(began).await;
        let bound = began + self.run.settings.bound;
        self.workers.until(bound, |seen| seen.next_after(HOLDER, fault_ns).is_some()).await;
        sleep_until(began + ISOLATION_MIN).await;
        self.run.cluster.signal(leader, Signal::SIGCONT)
    }

    /// Waits until another worker has entered or the bound has passed.
    async fn after(&mut self) -> Result<Option<u64>, String> {
        let (fault_ns, bound) = (self.fault_ns, Instant::now() + self.run.settings.bound);
        let next = move |seen: &SaleEvents| seen.next_after(HOLDER, fault_ns);
        match self.run.scenario {
            FaultScenario::None | FaultScenario::HolderKilled | FaultScenario::LeaderIsolated => {}
            FaultScenario::HolderPaused => {
                let found = self.workers.until(bound, |seen| next(seen).is_some()).await;
                if found {
                    let text = "acquire the lock: the lease of worker-0 has expired";
                    self.run.log.holds(OTHERS, None, text);
                    self.workers.until(Instant::now() + SALE_MAX, enough_after(fault_ns)).await;
                    let sold = self.workers.seen.done_after(HOLDER, fault_ns);
                    self.run.log.outcome(OTHERS, true, format!("sell {sold} pieces"));
                }
                let next = next(&self.workers.seen);
                self.run
                    .log
                    .note(HOLDER_NAME, "resumes (SIGCONT), and writes what it had computed");
                self.workers.signal(HOLDER, Signal::SIGCONT);
                self.workers.order(HOLDER, WorkerOrder::Resume).await;
                self.log_the_late_write().await?;
                return Ok(next);
            }
            FaultScenario::ClientClock
            | FaultScenario::ServersRestarted
            | FaultScenario::ReplicaPromoted
            | FaultScenario::ServerClock => self.resume_in_time(Instant::now()).await,
        }
        self.workers.until(bound, |seen| next(seen).is_some()).await;
        Ok(next(&self.workers.seen))
    }

    /// Waits for the end of the resumed holder's sale, and logs whether the database accepted its write.
    async fn log_the_late_write(&mut self) -> Result<(), String> {
        self.wait("the resumed holder", |seen| seen.halted.is_none()).await?;
        let stale = self.workers.seen.stale_writes.first();
        let text = stale.map_or("writes the stock that it had computed", String::as_str);
        self.run.log.outcome(HOLDER_NAME, stale.is_none(), text);
        self.run.log.ends(HOLDER_NAME, "ends its sale");
        Ok(())
    }

    /// Resumes the holder within its lease: after enough sales of others, or at the end of its own sale.
    async fn resume_in_time(&mut self, began: Instant) {
        let restarted = self.run.scenario == FaultScenario::ServersRestarted;
        let without_lease = restarted && self.run.participant.ends_with_connection();
        let longest = if without_lease { LONG_SALE_MAX } else { SALE_MAX };
        self.workers.until(began + longest, enough_after(self.fault_ns)).await;
        self.workers.order(HOLDER, WorkerOrder::Resume).await;
    }

    /// Lets all live workers sell until the stock is empty; each has then completed `orders` orders.
    async fn sell_out(&mut self, orders: u32) -> Result<(), String> {
        self.order_all(WorkerOrder::Sell(u32::MAX)).await;
        self.wait("the stock to be empty", move |seen| {
            let mut workers = seen.orders_done.iter().enumerate();
            workers.all(|(worker, done)| *done == orders || seen.ended.contains(&worker))
        })
        .await
    }
}

fn enough_after(fault_ns: u64) -> impl Fn(&SaleEvents) -> bool {
    move |seen| seen.done_after(HOLDER, fault_ns) >= ENOUGH
}
