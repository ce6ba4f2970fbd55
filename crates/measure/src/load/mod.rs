//! The load generator: clients that acquire and release locks in cycles.
//!
//! In a closed loop, a client starts a cycle when its previous cycle has ended. In an open loop, cycles start at
//! scheduled moments. In every phase [`LoadJudge`] checks that each lock has one holder and that its tokens grow.
//! Bounds: one call in progress for each client.

mod counts;
mod judge;
mod schedule;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;

pub use counts::{LoadCounts, LoadUsage, load_histogram};
pub use judge::LoadJudge;
pub use schedule::OpenLoop;

use schedule::{Schedule, ScheduleThread, ScheduledCycle};

/// The pause of a client after an error, so that an unreachable server causes no busy loop.
const ERROR_PAUSE: Duration = Duration::from_millis(10);

/// The phase of a load, which decides how a cycle that ends now is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadPhase {
    Warming,
    Measuring,
    /// Cycles that start or end in this phase count in [`LoadCounts::separate_times`].
    Separate,
    Ending,
}

/// One client with one lock and one call in progress.
pub trait LoadClient: Send + 'static {
    /// Acquires the lock, waiting for it; returns the fencing token if the lock has one.
    ///
    /// # Errors
    /// The kind of error, for a table.
    fn acquire(&mut self) -> impl Future<Output = Result<Option<u64>, String>> + Send;

    /// # Errors
    /// The kind of error, for a table.
    fn release(&mut self) -> impl Future<Output = Result<(), String>> + Send;

    /// The requests of the client so far; zero if it does not count them.
    fn usage(&self) -> LoadUsage {
        LoadUsage::default()
    }

    /// Called after the last cycle.
    fn close(&mut self) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// The clients of one run.
#[derive(Debug)]
pub struct Load<C> {
    /// The client of index `i` uses the lock of index `i % locks`.
    pub clients: Vec<C>,
    pub locks: usize,
    /// `None` for a closed loop.
    pub open_loop: Option<OpenLoop>,
    /// The moment at which cycles in progress are abandoned; `None` waits for them.
    pub deadline: Option<Instant>,
}

/// The result of a run.
#[derive(Debug)]
pub struct LoadResult {
    pub elapsed: Duration,
    pub counts: LoadCounts,
    /// Grants while another client held the lock, and tokens that did not grow.
    pub violations: u64,
}

/// State shared by all clients.
struct SharedLoad {
    phase: watch::Receiver<LoadPhase>,
    judges: Vec<LoadJudge>,
    schedule: Option<Arc<Schedule>>,
    deadline: Option<Instant>,
}

impl<C: LoadClient> Load<C> {
    /// Runs the clients while `conduct` sets the phases. `conduct` returns the measured time.
    ///
    /// # Errors
    /// The error of `conduct`, or of a client that panicked.
    pub async fn run(
        self,
        conduct: impl AsyncFnOnce(&watch::Sender<LoadPhase>) -> Result<Duration, String>,
    ) -> Result<LoadResult, String> {
        let (phase, phases) = watch::channel(LoadPhase::Warming);
        let schedule = self.open_loop.map(|open_loop| Arc::new(Schedule::new(open_loop)));
        let thread = schedule.clone();
        let _thread = thread.map(|schedule| ScheduleThread::start(schedule, self.clients.len()));
        let judges = (0..self.locks).map(|_| LoadJudge::default()).collect();
        let deadline = self.deadline;
        let shared = Arc::new(SharedLoad { phase: phases, judges, schedule, deadline });
        let mut clients = JoinSet::new();
        for (index, client) in self.clients.into_iter().enumerate() {
            let counts = LoadCounts::new()?;
            let lock = index % self.locks.max(1);
            let (shared, repeated) = (Arc::clone(&shared), false);
            let (scheduled, began) = (None, None);
            let runner = ClientRunner { client, shared, lock, scheduled, began, repeated, counts };
            clients.spawn(runner.run());
        }
        let elapsed = conduct(&phase).await;
        phase.send_replace(LoadPhase::Ending);
        let mut counts = LoadCounts::new()?;
        while let Some(client) = clients.join_next().await {
            counts.add(&client.map_err(|error| error.to_string())?)?;
        }
        if let Some(schedule) = &shared.schedule {
            counts.scheduled = schedule.counting();
            for cycle in schedule.untaken().filter(|cycle| cycle.counts) {
                counts.abandon(cycle.start.elapsed());
            }
        }
        let violations = shared.judges.iter().map(LoadJudge::violations).sum();
        Ok(LoadResult { elapsed: elapsed?, counts, violations })
    }
}

struct ClientRunner<C> {
    client: C,
    shared: Arc<SharedLoad>,
    lock: usize,
    /// The cycle in progress of an open loop.
    scheduled: Option<ScheduledCycle>,
    /// The start of the cycle in progress of a closed loop, if it counts.
    began: Option<Instant>,
    /// Whether the next grant may repeat an earlier grant of the client.
    repeated: bool,
    counts: LoadCounts,
}

impl<C: LoadClient> ClientRunner<C> {
    async fn run(mut self) -> LoadCounts {
        let shared = Arc::clone(&self.shared);
        let cycles = async {
            match &shared.schedule {
                None => self.closed_loop().await,
                Some(schedule) => self.open_loop(schedule).await,
            }
        };
        let in_time = match shared.deadline {
            None => {
                cycles.await;
                true
            }
            Some(deadline) => tokio::time::timeout_at(deadline.into(), cycles).await.is_ok(),
        };
        match self.scheduled.take() {
            _ if in_time => self.client.close().await,
            Some(cycle) if cycle.counts => self.counts.abandon(cycle.start.elapsed()),
            None if shared.schedule.is_none() => {
                if let Some(began) = self.began {
                    self.counts.abandon(began.elapsed());
                }
                self.counts.error("unfinished");
            }
            Some(_) | None => {}
        }
        self.counts
    }

    fn phase(&self) -> LoadPhase {
        *self.shared.phase.borrow()
    }

    async fn closed_loop(&mut self) {
        while self.phase() != LoadPhase::Ending {
            let (before, began) = (self.phase(), Instant::now());
            self.began = (before == LoadPhase::Measuring).then_some(began);
            match self.cycle().await {
                Ok(()) => self.counts.end(before, self.phase(), began.elapsed()),
                Err(kind) => self.fail(&kind, true).await,
            }
            self.began = None;
        }
    }

    /// Runs scheduled cycles. The time of a cycle that starts late includes the delay.
    async fn open_loop(&mut self, schedule: &Schedule) {
        while let Some(cycle) = schedule.take().await {
            self.scheduled = Some(cycle);
            let done = self.cycle().await;
            self.scheduled = None;
            match done {
                Ok(()) => {
                    self.counts.ended += u64::from(self.phase() == LoadPhase::Measuring);
                    if cycle.counts {
                        self.counts.time(cycle.start.elapsed());
                    }
                }
                Err(kind) => {
                    if cycle.counts {
                        self.counts.abandon(cycle.start.elapsed());
                    }
                    self.fail(&kind, cycle.counts).await;
                }
            }
        }
    }

    async fn fail(&mut self, kind: &str, counts: bool) {
        if counts {
            self.counts.error(kind);
        }
        tokio::time::sleep(ERROR_PAUSE).await;
    }

    async fn cycle(&mut self) -> Result<(), String> {
        let before = self.client.usage();
        let repeated = std::mem::replace(&mut self.repeated, true);
        let token = self.client.acquire().await?;
        if self.phase() == LoadPhase::Measuring {
            self.counts.acquire(before, self.client.usage());
        }
        let shared = Arc::clone(&self.shared);
        if let Some(judge) = shared.judges.get(self.lock) {
            judge.granted(token, repeated);
            if shared.judges.len() == 1 {
                // Other clients run here, so that the judge detects a second holder.
                tokio::task::yield_now().await;
            }
            judge.releasing();
        }
        self.client.release().await?;
        self.repeated = false;
        Ok(())
    }
}
