//! Decides when waiting runs leave for the log, and counts the batches in flight (ADR 0009).
//!
//! | waiting runs | leave |
//! |---|---|
//! | an immediate run, and fewer than [`COMPANY_MIN`] commands in immediate batches in flight | at once |
//! | an immediate run, and more | when a batch returns, at most [`JOIN_AFTER`] after the last one left |
//! | as many as a batch holds | at once |
//! | only runs that may wait, on the leader | [`MAY_WAIT_MAX`] after the oldest arrived |
//! | only runs that may wait, on a follower | at once: the leader decides what may wait |
//!
//! An immediate batch has at least one immediate run. Of each of the two kinds of batches, at most
//! `propose_inflight_max` are in flight.
//!
//! A small run waits behind the bytes of a large batch in every log, and for the processors that copy them. So after a large
//! batch, if small ones were sent meanwhile, no other large batch is sent for three times as long as it took. The callers
//! of a batch get their replies before.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Commands in flight that make a run wait. Fewer callers gain more by an early answer than by shared entries.
const COMPANY_MIN: usize = 8;
/// The longest that an immediate run waits for the return of an immediate batch. On a fast network the batch returns
/// earlier, and callers share entries. On a slow one, several batches are in flight.
const JOIN_AFTER: Duration = Duration::from_millis(4);
/// The longest that a run with [`Urgency::MayWait`](crate::Urgency::MayWait) waits for the entry of another run.
const MAY_WAIT_MAX: Duration = Duration::from_millis(4);

/// The runs that wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitingRuns {
    /// When the oldest arrived.
    pub(crate) oldest: Instant,
    pub(crate) all_may_wait: bool,
    /// They fill a batch.
    pub(crate) full: bool,
    /// This node leads.
    pub(crate) on_leader: bool,
}

/// The kind of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchKind {
    /// It has a run that is immediate.
    Immediate,
    /// All its runs may wait.
    MayWait,
}

/// A batch in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentBatch {
    pub(crate) kind: BatchKind,
    pub(crate) commands: usize,
}

/// The batches in flight.
#[derive(Debug)]
pub(crate) struct Departures {
    inflight_max: usize,
    immediate: usize,
    may_wait: usize,
    /// Commands in the immediate batches.
    commands: usize,
    /// When the last immediate batch left, plus [`JOIN_AFTER`].
    joins_at: Option<Instant>,
}

impl Departures {
    pub(crate) fn new(inflight_max: usize) -> Self {
        Self { inflight_max, immediate: 0, may_wait: 0, commands: 0, joins_at: None }
    }

    pub(crate) fn left(&mut self, batch: SentBatch, now: Instant) {
        match batch.kind {
            BatchKind::Immediate => {
                self.immediate += 1;
                self.commands += batch.commands;
                self.joins_at = Some(now + JOIN_AFTER);
            }
            BatchKind::MayWait => self.may_wait += 1,
        }
    }

    pub(crate) fn returned(&mut self, batch: SentBatch) {
        match batch.kind {
            BatchKind::Immediate => {
                self.immediate -= 1;
                self.commands -= batch.commands;
            }
            BatchKind::MayWait => self.may_wait -= 1,
        }
    }

    /// When the waiting runs leave; `None` while no batch of their kind may leave.
    pub(crate) fn due(&self, waiting: WaitingRuns) -> Option<Instant> {
        let WaitingRuns { oldest, all_may_wait, full, on_leader } = waiting;
        let in_flight = if all_may_wait { self.may_wait } else { self.immediate };
        if in_flight >= self.inflight_max {
            return None;
        }
        Some(match (all_may_wait, self.joins_at) {
            _ if full => oldest,
            (true, _) if on_leader => oldest + MAY_WAIT_MAX,
            (false, Some(joins_at)) if self.commands >= COMPANY_MIN => oldest.max(joins_at),
            _ => oldest,
        })
    }
}

/// The time without a large batch, as a multiple of the time of the last one.
const REST: u32 = 3;
/// A batch that waited for a leader took long for another reason.
const REST_MAX: Duration = Duration::from_millis(500);

/// When the next batch of a queue may be sent. Both have the number of small batches so far.
#[derive(Clone)]
pub(crate) enum BatchPace {
    Small(Arc<AtomicU64>),
    Large(Arc<AtomicU64>),
}

impl BatchPace {
    /// Sends a batch, and returns when the next one may follow.
    pub(crate) async fn send<T>(self, sending: impl Future<Output = T>) -> T {
        match self {
            Self::Small(batches) => {
                batches.fetch_add(1, Ordering::Relaxed);
                sending.await
            }
            Self::Large(small_batches) => {
                let (since, before) = (Instant::now(), small_batches.load(Ordering::Relaxed));
                let sent = sending.await;
                if small_batches.load(Ordering::Relaxed) != before {
                    sleep((since.elapsed() * REST).min(REST_MAX)).await;
                }
                sent
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(oldest: Instant) -> WaitingRuns {
        WaitingRuns { oldest, all_may_wait: false, full: false, on_leader: true }
    }

    const ALONE: SentBatch = SentBatch { kind: BatchKind::Immediate, commands: 1 };
    const MANY: SentBatch = SentBatch { kind: BatchKind::Immediate, commands: COMPANY_MIN - 1 };
    const WAITERS: SentBatch = SentBatch { kind: BatchKind::MayWait, commands: 100 };

    #[test]
    fn an_immediate_run_leaves_at_once_unless_many_immediate_commands_are_in_flight() {
        let start = Instant::now();
        let later = start + Duration::from_millis(1);
        let mut departures = Departures::new(3);
        assert_eq!(departures.due(waiting(start)), Some(start));
        departures.left(WAITERS, start);
        departures.left(MANY, start);
        assert_eq!(departures.due(waiting(later)), Some(later));
        departures.left(ALONE, start);
        assert_eq!(departures.due(waiting(later)), Some(start + JOIN_AFTER));
        assert_eq!(departures.due(WaitingRuns { full: true, ..waiting(later) }), Some(later));
        departures.returned(ALONE);
        assert_eq!(departures.due(waiting(later)), Some(later));
    }

    #[test]
    fn a_run_that_may_wait_waits_on_the_leader_only() {
        let start = Instant::now();
        let departures = Departures::new(3);
        let run = WaitingRuns { all_may_wait: true, ..waiting(start) };
        assert_eq!(departures.due(run), Some(start + MAY_WAIT_MAX));
        assert_eq!(departures.due(WaitingRuns { full: true, ..run }), Some(start));
        assert_eq!(departures.due(WaitingRuns { on_leader: false, ..run }), Some(start));
    }

    #[test]
    fn each_kind_of_batch_has_its_own_limit() {
        let start = Instant::now();
        let run = WaitingRuns { all_may_wait: true, on_leader: false, ..waiting(start) };
        let mut departures = Departures::new(1);
        departures.left(WAITERS, start);
        assert_eq!(departures.due(run), None);
        assert_eq!(departures.due(waiting(start)), Some(start));
        departures.left(ALONE, start);
        assert_eq!(departures.due(WaitingRuns { full: true, ..waiting(start) }), None);
        departures.returned(WAITERS);
        assert_eq!(departures.due(run), Some(start));
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_batch_is_followed_by_a_rest_only_if_small_ones_were_sent() {
        let small_batches = Arc::new(AtomicU64::new(0));
        let (small, large) =
            (BatchPace::Small(small_batches.clone()), BatchPace::Large(small_batches));
        let took = |since: Instant| since.elapsed().as_millis();
        for (with_small, batch_ms, expected) in
            [(false, 20, 20), (true, 20, 80), (true, 1_000, 1_500)]
        {
            let since = Instant::now();
            let batch = async {
                sleep(Duration::from_millis(batch_ms)).await;
                if with_small {
                    small.clone().send(async {}).await;
                }
            };
            large.clone().send(batch).await;
            assert_eq!(took(since), expected);
        }
        let since = Instant::now();
        small.send(sleep(Duration::from_millis(5))).await;
        assert_eq!(took(since), 5);
    }
}
