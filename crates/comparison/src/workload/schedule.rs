//! The open loop: moments that are fixed beforehand, at which cycles begin whether the last ones have ended or not.
//!
//! Owns the moments, who takes the next one, and what is left when it ends. A time counts from the moment that was
//! scheduled, not from when a client was free for it, so that a server which stalls is charged with everybody whom it kept
//! waiting. A thread of its own watches the clock: a runtime's timers are a millisecond coarse.
//!
//! Bounds: the number of moments; nothing is queued but their number.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

/// How soon the clock's thread notices that nobody needs it any more.
const NOTICE: Duration = Duration::from_millis(50);

/// The moments of one case.
#[derive(Debug)]
pub(super) struct Schedule {
    origin: Instant,
    rate: u32,
    /// How many there are.
    count: u64,
    /// Of those, the first that counts.
    first_that_counts: u64,
    next: AtomicU64,
    due: Semaphore,
    is_past: AtomicBool,
}

impl Schedule {
    /// So many a second from `origin` on, for the warm-up and the window.
    pub(super) fn new(origin: Instant, rate: u32, warmup: Duration, window: Duration) -> Self {
        Self {
            origin,
            rate,
            count: moments(rate, warmup + window),
            first_that_counts: moments(rate, warmup),
            next: AtomicU64::new(0),
            due: Semaphore::new(0),
            is_past: AtomicBool::new(false),
        }
    }

    /// When one of them is.
    fn moment(&self, number: u64) -> Instant {
        let nanos = number.saturating_mul(1_000_000_000) / u64::from(self.rate.max(1));
        self.origin + Duration::from_nanos(nanos)
    }

    /// Waits for the next one; none when all are taken.
    pub(super) async fn take(&self) -> Option<Moment> {
        // It is never closed.
        self.due.acquire().await.ok()?.forget();
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        (number < self.count).then(|| self.numbered(number))
    }

    /// Those that nobody took, when it is given up.
    pub(super) fn untaken(&self) -> impl Iterator<Item = Moment> + '_ {
        let from = self.next.swap(self.count, Ordering::SeqCst);
        (from..self.count).map(|number| self.numbered(number))
    }

    /// How many count.
    pub(super) fn scheduled(&self) -> u64 {
        self.count - self.first_that_counts
    }

    fn numbered(&self, number: u64) -> Moment {
        Moment { intended: self.moment(number), counts: number >= self.first_that_counts }
    }
}

/// One of the moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// When its cycle was to begin.
    pub(super) intended: Instant,
    /// Whether it lies in the window.
    pub(super) counts: bool,
}

/// The thread that lets each moment be taken when it has come. It ends when this is dropped, or after the last.
#[derive(Debug)]
pub(super) struct Clock(Arc<Schedule>);

impl Clock {
    /// Starts it. After the last moment each of `clients` is told that there is none left.
    pub(super) fn start(schedule: Arc<Schedule>, clients: usize) -> Self {
        let watched = Arc::clone(&schedule);
        std::thread::spawn(move || {
            let mut number = 0;
            while number < watched.count && !watched.is_past.load(Ordering::Relaxed) {
                let left = watched.moment(number).saturating_duration_since(Instant::now());
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

impl Drop for Clock {
    fn drop(&mut self) {
        self.0.is_past.store(true, Ordering::Relaxed);
    }
}

fn moments(rate: u32, time: Duration) -> u64 {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    u64::from(rate).saturating_mul(millis) / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    const WARMUP: Duration = Duration::from_millis(100);
    const WINDOW: Duration = Duration::from_millis(300);

    fn schedule(origin: Instant) -> Schedule {
        Schedule::new(origin, 100, WARMUP, WINDOW)
    }

    #[tokio::test]
    async fn moments_are_evenly_apart_and_those_of_the_warm_up_do_not_count() {
        let origin = Instant::now();
        let schedule = schedule(origin);
        schedule.due.add_permits(50);
        let mut taken = Vec::new();
        while let Some(moment) = schedule.take().await {
            taken.push(moment);
        }
        assert_eq!((taken.len(), schedule.scheduled()), (40, 30));
        assert_eq!(taken.iter().filter(|moment| moment.counts).count(), 30);
        for (number, moment) in (0..).zip(&taken) {
            assert_eq!(moment.intended, origin + number * Duration::from_millis(10));
        }
    }

    #[tokio::test]
    async fn what_nobody_took_is_handed_out_once_at_the_end() {
        let schedule = schedule(Instant::now());
        schedule.due.add_permits(15);
        for _ in 0..15 {
            assert!(schedule.take().await.is_some());
        }
        assert_eq!(schedule.untaken().filter(|moment| moment.counts).count(), 25);
        assert_eq!(schedule.untaken().count(), 0);
        schedule.due.add_permits(1);
        assert_eq!(schedule.take().await, None);
    }

    #[tokio::test]
    async fn nobody_gets_a_moment_before_it_has_come_and_all_are_told_of_the_end() {
        let schedule = Arc::new(schedule(Instant::now()));
        let _clock = Clock::start(Arc::clone(&schedule), 2);
        while let Some(moment) = schedule.take().await {
            assert!(Instant::now() >= moment.intended);
        }
        assert_eq!(schedule.take().await, None, "the second client");
    }
}
