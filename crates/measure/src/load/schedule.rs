//! The open loop: scheduled moments at which cycles start, even if earlier cycles are still in progress.
//!
//! The time of a cycle counts from the scheduled moment, even if no client is free then. The times of a stalled server
//! therefore include every delayed cycle. One thread watches the clock, because the timers of the runtime have a
//! resolution of one millisecond. Bounds: a count of due moments, at most the number of scheduled cycles.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

/// The maximum sleep of the thread before it checks whether the load is over.
const NOTICE: Duration = Duration::from_millis(50);

/// The schedule of an open loop.
#[derive(Clone, Copy, Debug)]
pub struct OpenLoop {
    pub origin: Instant,
    /// Cycles per second, for all clients together.
    pub rate: u32,
    /// Cycles that start within this time after `origin` do not count.
    pub warmup: Duration,
    pub window: Duration,
}

#[derive(Debug)]
pub(super) struct Schedule {
    open_loop: OpenLoop,
    /// The number of cycles, with those of the warm-up.
    count: u64,
    /// The number of the first cycle that counts.
    first_counting: u64,
    next: AtomicU64,
    due: Semaphore,
    is_over: AtomicBool,
}

impl Schedule {
    pub(super) fn new(open_loop: OpenLoop) -> Self {
        let OpenLoop { rate, warmup, window, .. } = open_loop;
        Self {
            open_loop,
            count: cycles(rate, warmup + window),
            first_counting: cycles(rate, warmup),
            next: AtomicU64::new(0),
            due: Semaphore::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    fn start(&self, number: u64) -> Instant {
        let rate = u64::from(self.open_loop.rate.max(1));
        let nanos = number.saturating_mul(1_000_000_000) / rate;
        self.open_loop.origin + Duration::from_nanos(nanos)
    }

    /// Waits for the next cycle; `None` when all are taken.
    pub(super) async fn take(&self) -> Option<ScheduledCycle> {
        // The semaphore is never closed.
        self.due.acquire().await.ok()?.forget();
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        (number < self.count).then(|| self.cycle(number))
    }

    /// Takes all the cycles that no client has taken.
    pub(super) fn untaken(&self) -> impl Iterator<Item = ScheduledCycle> + '_ {
        let from = self.next.swap(self.count, Ordering::SeqCst);
        (from..self.count).map(|number| self.cycle(number))
    }

    /// The number of cycles in the window.
    pub(super) fn counting(&self) -> u64 {
        self.count - self.first_counting
    }

    fn cycle(&self, number: u64) -> ScheduledCycle {
        ScheduledCycle { start: self.start(number), counts: number >= self.first_counting }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScheduledCycle {
    pub(super) start: Instant,
    /// Whether the cycle starts in the window, after the warm-up.
    pub(super) counts: bool,
}

/// Makes each cycle available at its moment. The thread ends after the last cycle, or when this value is dropped.
#[derive(Debug)]
pub(super) struct ScheduleThread(Arc<Schedule>);

impl ScheduleThread {
    /// After the last cycle, the thread wakes each of `clients`: [`Schedule::take`] returns `None`.
    pub(super) fn start(schedule: Arc<Schedule>, clients: usize) -> Self {
        let watched = Arc::clone(&schedule);
        std::thread::spawn(move || {
            let mut number = 0;
            while number < watched.count && !watched.is_over.load(Ordering::Relaxed) {
                let left = watched.start(number).saturating_duration_since(Instant::now());
                if left.is_zero() {
                    watched.due.add_permits(1);
                    number += 1;
                } else {
                    std::thread::sleep(left.min(NOTICE));
                }
            }
            watched.due.add_permits(clients);
        });
        Self(schedule)
    }
}

impl Drop for ScheduleThread {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

fn cycles(rate: u32, time: Duration) -> u64 {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    u64::from(rate).saturating_mul(millis) / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule() -> Schedule {
        let (warmup, window) = (Duration::from_millis(100), Duration::from_millis(300));
        Schedule::new(OpenLoop { origin: Instant::now(), rate: 100, warmup, window })
    }

    #[tokio::test]
    async fn cycles_start_at_even_intervals_and_those_of_the_warm_up_do_not_count() {
        let schedule = schedule();
        schedule.due.add_permits(50);
        let mut taken = Vec::new();
        while let Some(cycle) = schedule.take().await {
            taken.push(cycle);
        }
        assert_eq!((taken.len(), schedule.counting()), (40, 30));
        assert_eq!(taken.iter().filter(|cycle| cycle.counts).count(), 30);
        for (number, cycle) in (0..).zip(&taken) {
            let start = schedule.open_loop.origin + number * Duration::from_millis(10);
            assert_eq!(cycle.start, start);
        }
    }

    #[tokio::test]
    async fn a_cycle_that_no_client_took_is_returned_once_at_the_end() {
        let schedule = schedule();
        schedule.due.add_permits(15);
        for _ in 0..15 {
            assert!(schedule.take().await.is_some());
        }
        assert_eq!(schedule.untaken().filter(|cycle| cycle.counts).count(), 25);
        assert_eq!(schedule.untaken().count(), 0);
        schedule.due.add_permits(1);
        assert_eq!(schedule.take().await, None);
    }

    #[tokio::test]
    async fn no_cycle_starts_before_its_moment_and_every_client_is_woken_at_the_end() {
        let schedule = Arc::new(schedule());
        let _thread = ScheduleThread::start(Arc::clone(&schedule), 2);
        while let Some(cycle) = schedule.take().await {
            assert!(Instant::now() >= cycle.start);
        }
        assert_eq!(schedule.take().await, None, "the second client");
    }
}
