//! Locks that behave as a test wants them to: slow, stalled, open to everybody, busy, first or last come first served.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdfast_comparison::{Hold, Limitation, LockClient, LockError, LockFuture, LockUsage, System};
use tokio::sync::oneshot;

/// What an acquire does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Manner {
    /// Takes this long, and lets everybody in.
    Slow(Duration),
    /// Is quick, but the one of this number takes this long.
    Stalls(u64, Duration),
    /// Is refused.
    Busy,
    /// Waits in a queue: the first is the next.
    FirstIn,
    /// Waits in a queue: the last is the next.
    LastIn,
}

#[derive(Debug, Default)]
struct Queue {
    held: bool,
    waiting: VecDeque<oneshot::Sender<()>>,
}

/// A planted lock.
#[derive(Clone, Debug)]
pub(crate) struct Simulated {
    manner: Manner,
    acquires: Arc<AtomicU64>,
    queue: Arc<Mutex<Queue>>,
}

impl Simulated {
    pub(crate) fn system(manner: Manner) -> Arc<dyn System> {
        Arc::new(Self { manner, acquires: Arc::default(), queue: Arc::default() })
    }

    /// Takes it at once, or a place in the queue.
    fn enter(&self) -> Option<oneshot::Receiver<()>> {
        let mut queue = self.queue.lock().unwrap();
        if !std::mem::replace(&mut queue.held, true) {
            return None;
        }
        let (call, called) = oneshot::channel();
        queue.waiting.push_back(call);
        Some(called)
    }

    fn leave(&self) {
        let mut queue = self.queue.lock().unwrap();
        loop {
            let last_first = matches!(self.manner, Manner::LastIn);
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

impl System for Simulated {
    fn name(&self) -> &'static str {
        "planted"
    }

    fn limitations(&self) -> &'static [Limitation] {
        &[]
    }

    fn client(&self) -> LockFuture<'_, Box<dyn LockClient>> {
        let client = self.clone();
        Box::pin(async move { Ok(Box::new(client) as Box<dyn LockClient>) })
    }
}

impl LockClient for Simulated {
    fn acquire<'a>(&'a mut self, lock: &'a str, _patience: Duration) -> LockFuture<'a, Hold> {
        Box::pin(async move {
            let number = self.acquires.fetch_add(1, SeqCst) + 1;
            match self.manner {
                Manner::Slow(time) => tokio::time::sleep(time).await,
                Manner::Stalls(at, time) if at == number => tokio::time::sleep(time).await,
                Manner::Stalls(..) => tokio::task::yield_now().await,
                Manner::Busy => return Err(LockError::Busy),
                Manner::FirstIn | Manner::LastIn => {
                    if let Some(called) = self.enter() {
                        called.await.unwrap();
                    }
                }
            }
            Ok(Hold::new(lock, ""))
        })
    }

    fn release(&mut self, _hold: Hold) -> LockFuture<'_, ()> {
        Box::pin(async move {
            self.leave();
            Ok(())
        })
    }

    fn usage(&self) -> LockUsage {
        let acquires = self.acquires.load(SeqCst);
        LockUsage { round_trips: 2 * acquires, polls: 0, wakeups: 0 }
    }
}
