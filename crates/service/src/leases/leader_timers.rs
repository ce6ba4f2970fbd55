//! The leader's timers: expire leases, end orphaned waits, run the timers of locks, and sweep empty lock directories.
//!
//! The task runs on every node and does nothing unless the node leads. A leadership begins after a quorum has confirmed
//! it, so everything acknowledged before is visible; every session then has its full TTL, or the rest of its record. A pause of the process
//! extends all leases by its length, because no client could renew meanwhile. Expiries carry this leadership's epoch,
//! are never forwarded, and are proposed one batch at a time.
//!
//! While the cluster is sealed, the task proposes nothing, and the time does not count for leases.

use std::time::{Duration, Instant};

use holdfast_raft::{LeaderEpoch, ProposeError};
use holdfast_types::{Command, Limits, Stamp};
use tokio::time::{Interval, MissedTickBehavior};

use crate::leases::lease::ExpiryOutcome;
use crate::leases::pause_detector::PauseDetector;
use crate::service::Service;
use crate::waiting::{OrphanedWaits, WaitSource};

/// Sessions expired by one proposal; the bound leaves room for other commands.
const BATCH_MAX: usize = 128;
/// Leases of one record.
const RECORDS_MAX: usize = 1_000;
const RECORD_EVERY: Duration = Duration::from_secs(1);
/// Waits ended by one proposal.
const CANCELS_MAX: usize = 128;
/// Locks whose timers one proposal runs.
const LOCK_TIMERS_MAX: usize = 128;
/// The maximum age of the log's last stamp while a timer is pending. A restart of all nodes delays timers by this age.
const TIME_EVERY: Duration = Duration::from_secs(5);
/// Directories swept by one command.
const SWEEP_MAX: u32 = 1_000;

/// Runs until the service is stopped.
pub(crate) async fn run(service: Service) {
    let mut leadership = service.raft().leadership();
    let mut timers = LeaderTimers::new(service.clone());
    loop {
        tokio::select! {
            () = service.stopped().cancelled() => return,
            changed = leadership.changed() => if changed.is_err() { return },
            _ = timers.ticks.tick() => {}
        }
        let epoch = leadership.borrow_and_update().epoch;
        timers.turn(epoch).await;
    }
}

struct LeaderTimers {
    service: Service,
    /// The leadership whose leases are running.
    epoch: Option<LeaderEpoch>,
    ticks: Interval,
    pauses: PauseDetector,
    orphans: [OrphanedWaits; 2],
    last_sweep: Instant,
    last_record: Instant,
    /// When this leader found the cluster sealed.
    sealed_since: Option<Instant>,
}

impl LeaderTimers {
    fn new(service: Service) -> Self {
        let (now, tick) = (Instant::now(), service.config().tick);
        let mut ticks = tokio::time::interval(tick);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let pauses = PauseDetector::new(now, tick);
        let orphans = orphaned_waits();
        let (epoch, sealed_since) = (None, None);
        Self {
            service,
            epoch,
            ticks,
            pauses,
            orphans,
            last_sweep: now,
            last_record: now,
            sealed_since,
        }
    }

    async fn turn(&mut self, epoch: Option<LeaderEpoch>) {
        self.check_pause();
        if epoch != self.epoch {
            self.service.observer().leases.lock().end_leadership(self.epoch.take());
            self.sealed_since = None;
        }
        match (epoch, self.epoch) {
            (None, _) => {}
            (Some(_), None) => self.begin().await,
            (Some(_), Some(_)) if self.is_sealed() => {}
            (Some(_), Some(epoch)) => {
                self.expire(&epoch).await;
                self.record_leases(&epoch).await;
                self.end_orphaned_waits(&epoch).await;
                self.run_lock_timers(&epoch).await;
                self.sweep(&epoch).await;
            }
        }
    }

    /// Returns whether the cluster is sealed. After the seal, all leases are longer by its time.
    fn is_sealed(&mut self) -> bool {
        if self.service.raft().read(|machine| machine.sealed().is_some()) {
            self.sealed_since.get_or_insert_with(Instant::now);
        } else if let Some(since) = self.sealed_since.take() {
            self.service.observer().leases.lock().extend(since.elapsed());
        }
        self.sealed_since.is_some()
    }

    fn check_pause(&mut self) {
        let gap = self.pauses.check(Instant::now(), &mut self.service.observer().leases.lock());
        log_pause(gap);
    }

    /// Runs `work` and checks for pauses meanwhile. So a long wait does not count as a pause, and a pause within
    /// the wait does.
    async fn checking_pauses<T>(&mut self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                _ = self.ticks.tick() => self.check_pause(),
                done = &mut work => {
                    self.check_pause();
                    return done;
                }
            }
        }
    }

    /// Begins a leadership after a quorum has confirmed it, its log is applied and its time is settled.
    async fn begin(&mut self) {
        if !self.service.raft().is_time_settled() {
            return;
        }
        let service = self.service.clone();
        let confirmed =
            self.checking_pauses(service.raft().confirm_leadership(service.deadline())).await;
        let Ok(epoch) = confirmed else { return };
        self.service.raft().read(|machine| {
            let mut leases = self.service.observer().leases.lock();
            leases.reset(machine.leases(), machine.leases_used(), Instant::now());
        });
        self.orphans = orphaned_waits();
        tracing::info!(term = epoch.term, "new leadership: all leases restart");
        self.set_limits(&epoch).await;
        self.epoch = Some(epoch);
    }

    /// Replicates this node's configured `tree_bytes_max` if the replicated value differs.
    async fn set_limits(&mut self, epoch: &LeaderEpoch) {
        let service = self.service.clone();
        let tree_bytes_max = service.config().tree_bytes_max;
        let limits = service.raft().read(|machine| *machine.limits());
        if limits.tree_bytes_max == tree_bytes_max {
            return;
        }
        let commands = vec![Command::SetLimits(Limits { tree_bytes_max, ..limits })];
        match self.checking_pauses(service.raft().propose_as_leader(commands, *epoch)).await {
            Ok(_) => tracing::info!(tree_bytes_max, "tree_bytes_max is set"),
            // The next leadership retries.
            Err(error) => tracing::warn!(%error, "cannot set limits.tree_bytes_max"),
        }
    }

    async fn expire(&mut self, epoch: &LeaderEpoch) {
        let service = self.service.clone();
        let (gap, overdue) =
            self.pauses.overdue(Instant::now(), &mut service.observer().leases.lock(), BATCH_MAX);
        log_pause(gap);
        if overdue.is_empty() {
            return;
        }
        let expire = |&(session, generation)| Command::ExpireSession { session, generation };
        let commands = overdue.iter().map(expire).collect();
        let proposed =
            self.checking_pauses(service.raft().propose_as_leader(commands, *epoch)).await;
        if let Err(error) = &proposed {
            tracing::warn!(%error, count = overdue.len(), "failed to propose expiries");
        }
        // `disarm` ignores sessions that have expired: they have no lease.
        let outcome = match proposed {
            Ok(_) => ExpiryOutcome::Applied,
            Err(ProposeError::Unknown) => ExpiryOutcome::Unknown,
            Err(_) => ExpiryOutcome::NotProposed,
        };
        let (mut leases, now) = (service.observer().leases.lock(), Instant::now());
        for (session, _) in overdue {
            leases.disarm(session, outcome, now);
        }
    }

    /// Writes how much of the leases of silent sessions has passed, for the next leader.
    async fn record_leases(&mut self, epoch: &LeaderEpoch) {
        if self.last_record.elapsed() < RECORD_EVERY {
            return;
        }
        self.last_record = Instant::now();
        let service = self.service.clone();
        let now = Instant::now();
        let leases = service.raft().read(|machine| {
            let is_in_use = |session| machine.is_session_in_use(session);
            service.observer().leases.lock().records(is_in_use, now, RECORDS_MAX)
        });
        if leases.is_empty() {
            return;
        }
        // Without an outcome, these sessions are renewed through the log until their next renewal.
        let commands = vec![Command::RecordLeases { leases }];
        if let Err(error) =
            self.checking_pauses(service.raft().propose_as_leader(commands, *epoch)).await
        {
            tracing::debug!(%error, "failed to record leases");
        }
    }

    /// Ends waits of callers whose nodes have failed.
    async fn end_orphaned_waits(&mut self, epoch: &LeaderEpoch) {
        let (service, now) = (self.service.clone(), Instant::now());
        let grace = service.config().wait_grace;
        let ends: Vec<_> = service.raft().read(|machine| {
            let overdue = |waits: &mut OrphanedWaits| {
                waits.scan(machine, now, grace);
                waits.overdue(machine, now, now + grace, CANCELS_MAX)
            };
            self.orphans.iter_mut().flat_map(overdue).collect()
        });
        if ends.is_empty() {
            return;
        }
        tracing::info!(count = ends.len(), "ending waits whose callers' nodes have failed");
        if let Err(error) =
            self.checking_pauses(service.raft().propose_as_leader(ends, *epoch)).await
        {
            tracing::debug!(%error, "failed to end orphaned waits");
        }
    }

    /// Proposes lock timers that have expired by the log's time. While a timer is pending, the leader proposes a
    /// command at least every [`TIME_EVERY`]: a restarted node continues from the last stamp in its log.
    async fn run_lock_timers(&mut self, epoch: &LeaderEpoch) {
        let service = self.service.clone();
        let now = service.raft().stamp();
        let due = service.raft().read(|machine| {
            let since_last_stamp = Duration::from_millis(now.0.saturating_sub(machine.now().0));
            match machine.timers_until(now, LOCK_TIMERS_MAX) {
                due if due.is_empty() && since_last_stamp >= TIME_EVERY => {
                    machine.timers_until(Stamp(u64::MAX), 1)
                }
                due => due,
            }
        });
        if due.is_empty() {
            return;
        }
        let commands = due.into_iter().map(|lock| Command::RunTimers { lock }).collect();
        if let Err(error) =
            self.checking_pauses(service.raft().propose_as_leader(commands, *epoch)).await
        {
            tracing::debug!(%error, "failed to propose lock timers");
        }
    }

    async fn sweep(&mut self, epoch: &LeaderEpoch) {
        if self.last_sweep.elapsed() < self.service.config().sweep_every {
            return;
        }
        self.last_sweep = Instant::now();
        let idle = holdfast_types::millis(self.service.config().container_idle);
        let now = self.service.raft().stamp();
        let empty_before = Stamp(now.0.saturating_sub(idle));
        if !self.service.raft().read(|machine| machine.anything_to_sweep(empty_before, now)) {
            return;
        }
        let sweep = Command::Sweep { empty_before, count_max: SWEEP_MAX };
        let service = self.service.clone();
        let sweeping = service.raft().propose_as_leader(vec![sweep], *epoch);
        if let Err(error) = self.checking_pauses(sweeping).await {
            tracing::debug!(%error, "failed to propose a sweep");
        }
    }
}

fn orphaned_waits() -> [OrphanedWaits; 2] {
    [WaitSource::Locks, WaitSource::Barriers].map(OrphanedWaits::new)
}

fn log_pause(gap: Option<Duration>) {
    if let Some(gap) = gap {
        let gap_ms = gap.as_millis();
        tracing::warn!(gap_ms, "this node was paused: all leases are extended");
    }
}
