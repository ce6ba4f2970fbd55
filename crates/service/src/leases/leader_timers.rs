//! The leader's timers: expire leases, end orphaned waits, run the timers of locks, and sweep empty lock directories.
//!
//! The task runs on every node and does nothing unless the node leads. A leadership begins after a quorum has confirmed
//! it, so everything acknowledged before is visible. Every session then has its full TTL, a longer TTL before it, or the
//! rest of its record. A pause of the process extends all leases by its length, because no client could renew meanwhile.
//! Expiries carry this leadership's epoch, are never forwarded, and are proposed one batch at a time.
//!
//! While the cluster is sealed, the task proposes nothing, and the time does not count for leases.

use std::time::{Duration, Instant};

use holdfast_raft::{LeaderEpoch, ProposeError};
use holdfast_types::{Command, Limits, Outcome, SessionId, Stamp};
use tokio::time::{Interval, MissedTickBehavior};

use crate::leases::lease::{ExpiryOutcome, Leases};
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
/// A check that is late by more than this counts as a pause.
const LATE: Duration = Duration::from_millis(250);

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
        Self {
            service,
            epoch: None,
            ticks,
            pauses,
            orphans,
            last_sweep: now,
            last_record: now,
            sealed_since: None,
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
                self.expire(epoch).await;
                self.record_leases(epoch).await;
                self.end_orphaned_waits(epoch).await;
                self.run_lock_timers(epoch).await;
                self.sweep(epoch).await;
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
        self.pauses.check(Instant::now(), &mut self.service.observer().leases.lock());
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

    /// Proposes commands of this leadership.
    async fn propose(
        &mut self,
        commands: Vec<Command>,
        epoch: LeaderEpoch,
    ) -> Result<Vec<Outcome>, ProposeError> {
        let service = self.service.clone();
        self.checking_pauses(service.raft().propose_as_leader(commands, epoch)).await
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
        self.set_limits(epoch).await;
        self.epoch = Some(epoch);
    }

    /// Replicates this node's configured `tree_bytes_max` if the replicated value differs.
    async fn set_limits(&mut self, epoch: LeaderEpoch) {
        let tree_bytes_max = self.service.config().tree_bytes_max;
        let limits = self.service.raft().read(|machine| *machine.limits());
        if limits.tree_bytes_max == tree_bytes_max {
            return;
        }
        let commands = vec![Command::SetLimits(Limits { tree_bytes_max, ..limits })];
        match self.propose(commands, epoch).await {
            Ok(_) => tracing::info!(tree_bytes_max, "tree_bytes_max is set"),
            // The next leadership retries.
            Err(error) => tracing::warn!(%error, "cannot set limits.tree_bytes_max"),
        }
    }

    async fn expire(&mut self, epoch: LeaderEpoch) {
        let service = self.service.clone();
        let overdue =
            self.pauses.overdue(Instant::now(), &mut service.observer().leases.lock(), BATCH_MAX);
        if overdue.is_empty() {
            return;
        }
        let expire = |&(session, generation)| Command::ExpireSession { session, generation };
        let commands = overdue.iter().map(expire).collect();
        let proposed = self.propose(commands, epoch).await;
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
    async fn record_leases(&mut self, epoch: LeaderEpoch) {
        if self.last_record.elapsed() < RECORD_EVERY {
            return;
        }
        self.last_record = Instant::now();
        let now = Instant::now();
        let leases = self.service.raft().read(|machine| {
            let is_in_use = |session| machine.is_session_in_use(session);
            self.service.observer().leases.lock().records(is_in_use, now, RECORDS_MAX)
        });
        if leases.is_empty() {
            return;
        }
        let records = leases.clone();
        if let Err(error) = self.propose(vec![Command::RecordLeases { leases }], epoch).await {
            tracing::debug!(%error, "failed to record leases");
            let is_undecided = error == ProposeError::Unknown;
            self.service.observer().leases.lock().records_failed(&records, is_undecided);
        }
    }

    /// Ends waits of callers whose nodes have failed.
    async fn end_orphaned_waits(&mut self, epoch: LeaderEpoch) {
        let (now, grace) = (Instant::now(), self.service.config().wait_grace);
        let ends: Vec<_> = self.service.raft().read(|machine| {
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
        if let Err(error) = self.propose(ends, epoch).await {
            tracing::debug!(%error, "failed to end orphaned waits");
        }
    }

    /// Proposes lock timers that have expired by the log's time. While a timer is pending, the leader proposes a
    /// command at least every [`TIME_EVERY`]: a restarted node continues from the last stamp in its log.
    async fn run_lock_timers(&mut self, epoch: LeaderEpoch) {
        let now = self.service.raft().stamp();
        let due = self.service.raft().read(|machine| {
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
        if let Err(error) = self.propose(commands, epoch).await {
            tracing::debug!(%error, "failed to propose lock timers");
        }
    }

    async fn sweep(&mut self, epoch: LeaderEpoch) {
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
        if let Err(error) = self.propose(vec![sweep], epoch).await {
            tracing::debug!(%error, "failed to propose a sweep");
        }
    }
}

fn orphaned_waits() -> [OrphanedWaits; 2] {
    [WaitSource::Locks, WaitSource::Barriers].map(OrphanedWaits::new)
}

/// Detects times in which this process did not run: a paused process, a stalled host, or a starved runtime.
///
/// The caller checks with the same instant by which it then expires leases, and also checks during its other waits. So
/// a pause is never counted as time in which a client could have renewed.
#[derive(Debug)]
struct PauseDetector {
    last: Instant,
    period: Duration,
}

impl PauseDetector {
    /// Expects a check every `period`, starting at `now`.
    fn new(now: Instant, period: Duration) -> Self {
        Self { last: now, period }
    }

    /// Extends all leases by the time since the last check if that time was a pause, and returns the pause.
    fn check(&mut self, now: Instant, leases: &mut Leases) -> Option<Duration> {
        let gap = now.saturating_duration_since(self.last);
        self.last = self.last.max(now);
        if gap <= self.period + LATE {
            return None;
        }
        leases.extend(gap);
        tracing::warn!(gap_ms = gap.as_millis(), "this node was paused: all leases are extended");
        Some(gap)
    }

    /// Checks for a pause first, then takes the overdue leases: see [`Leases::overdue`].
    fn overdue(
        &mut self,
        now: Instant,
        leases: &mut Leases,
        count_max: usize,
    ) -> Vec<(SessionId, u64)> {
        self.check(now, leases);
        leases.overdue(now, count_max)
    }
}

#[cfg(test)]
mod tests {
    use holdfast_types::Ttl;

    use super::*;
    use crate::leases::lease::started;

    const TICK: Duration = Duration::from_millis(50);
    const PAUSE: Duration = Duration::from_mins(1);
    const EARLY: SessionId = SessionId(1);
    const OTHER: SessionId = SessionId(2);

    /// The loop of the leader's timers, in single steps, with a pause of the process before one step. A proposal takes
    /// five ticks, with a check at each. `run` returns the running time of the node after which each session was
    /// overdue.
    struct Loop {
        now: Instant,
        steps: usize,
        pause_before: usize,
        pauses: PauseDetector,
        leases: Leases,
    }

    impl Loop {
        fn new(pause_before: usize) -> Self {
            let now = Instant::now();
            let mut leases = Leases::default();
            let ttl = |ms| Ttl::from_millis(ms).unwrap();
            leases.reset(
                [started(EARLY, ttl(1_000), 1), started(OTHER, ttl(2_000), 1)].into_iter(),
                std::iter::empty(),
                now,
            );
            Self { now, steps: 0, pause_before, pauses: PauseDetector::new(now, TICK), leases }
        }

        fn step(&mut self, takes: Duration) -> Instant {
            if self.steps == self.pause_before {
                self.now += PAUSE;
            }
            self.steps += 1;
            self.now += takes;
            self.now
        }

        fn run(mut self) -> Vec<(SessionId, Duration)> {
            let (began, mut overdue) = (self.now, Vec::new());
            while overdue.len() < 2 {
                let now = self.step(TICK);
                let found = self.pauses.overdue(now, &mut self.leases, 10);
                let paused = if self.steps > self.pause_before { PAUSE } else { Duration::ZERO };
                overdue.extend(
                    found
                        .iter()
                        .map(|(id, _)| (*id, now.duration_since(began).saturating_sub(paused))),
                );
                for _ in 0..if found.is_empty() { 0 } else { 5 } {
                    let now = self.step(TICK);
                    self.pauses.check(now, &mut self.leases);
                }
            }
            overdue
        }
    }

    #[test]
    fn a_pause_at_any_point_of_the_loop_expires_no_session_early() {
        for pause_before in 0..50 {
            for (session, after) in Loop::new(pause_before).run() {
                let ttl = Duration::from_millis(if session == EARLY { 1_000 } else { 2_000 });
                assert!(after >= ttl, "{session:?} after {after:?}, paused before {pause_before}");
                assert!(after <= ttl + TICK * 8, "expired too late: {after:?}");
            }
        }
    }

    #[test]
    fn a_check_in_time_is_no_pause_and_time_never_runs_back() {
        let t0 = Instant::now();
        let mut pauses = PauseDetector::new(t0, TICK);
        let mut leases = Leases::default();
        assert_eq!(pauses.check(t0 + TICK + LATE, &mut leases), None);
        assert_eq!(pauses.check(t0, &mut leases), None);
        assert_eq!(pauses.check(t0 + PAUSE, &mut leases), PAUSE.checked_sub(TICK + LATE));
    }
}
