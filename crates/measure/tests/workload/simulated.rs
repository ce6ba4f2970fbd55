//! Simulated locks: slow, stalled, without exclusion, busy, first or last come first served.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdfast_measure::LockError;
use holdfast_measure::lock::{Connector, HeldLock, LoadUsage, LockClient, LockFuture};
use tokio::sync::oneshot;

/// The behaviour of an acquire.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Behaviour {
    /// Takes this time and does not exclude.
    Slow(Duration),
    /// Returns at once, except the acquire with this number, which takes this time.
    Stalls(u64, Duration),
    /// Fails.
    Busy,
    /// Waits in a queue; the first waiter is next.
    FirstInFirstOut,
    /// Waits in a queue; the last waiter is next.
    LastInFirstOut,
}

#[derive(Debug, Default)]
struct Queue {
    held: bool,
    waiting: VecDeque<oneshot::Sender<()>>,
}

/// A lock and its clients.
#[derive(Clone, Debug)]
pub(crate) struct Simulated {
    behaviour: Behaviour,
    acquires: Arc<AtomicU64>,
    queue: Arc<Mutex<Queue>>,
}

impl Simulated {
    pub(crate) fn connector(behaviour: Behaviour) -> Connector {
        let lock = Self { behaviour, acquires: Arc::default(), queue: Arc::default() };
        Connector::new(move |_| {
            let client = lock.clone();
            Box::pin(async move { Ok(Box::new(client) as Box<dyn LockClient>) })
        })
    }

    /// Acquires the lock at once, or enters the queue.
    fn enter(&self) -> Option<oneshot::Receiver<()>> {
        let mut queue = self.queue.lock().unwrap();
        if !std::mem::replace(&mut queue.held, true) {
            return None;
        }
        let (sender, granted) = oneshot::channel();
        queue.waiting.push_back(sender);
        Some(granted)
    }

    fn leave(&self) {
        let mut queue = self.queue.lock().unwrap();
        loop {
            let last_first = matches!(self.behaviour, Behaviour::LastInFirstOut);
            let next =
                if last_first { queue.waiting.pop_back() } else { queue.waiting.pop_front() };
            let Some(next) = next else {
                queue.held = false;
                return;
            };
            if next.send(()).is_ok() {
                return;
            }
        }
    }
}

impl LockClient for Simulated {
    fn acquire<'a>(&'a mut self, lock: &'a str, _timeout: Duration) -> LockFuture<'a, HeldLock> {
        Box::pin(async move {
            let number = self.acquires.fetch_add(1, SeqCst) + 1;
            match self.behaviour {
                Behaviour::Slow(time) => tokio::time::sleep(time).await,
                Behaviour::Stalls(at, time) if at == number => tokio::time::sleep(time).await,
                Behaviour::Stalls(..) => tokio::task::yield_now().await,
                Behaviour::Busy => return Err(LockError::Busy),
                Behaviour::FirstInFirstOut | Behaviour::LastInFirstOut => {
                    if let Some(granted) = self.enter() {
                        granted.await.unwrap();
                    }
                }
            }
            Ok(HeldLock::new(lock, ""))
        })
    }

    fn release(&mut self, _held: HeldLock) -> LockFuture<'_, ()> {
        Box::pin(async move {
            self.leave();
            Ok(())
        })
    }

    fn usage(&self) -> LoadUsage {
        let acquires = self.acquires.load(SeqCst);
        LoadUsage { round_trips: 2 * acquires, polls: 0, wakeups: 0 }
    }
}
