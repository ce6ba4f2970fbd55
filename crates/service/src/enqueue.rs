//! An acquire that queues and returns: no call waits on a node, and the session keeps the place.

use holdfast_types::{Acquire, Command, EntryState, Reply};

use crate::failure::Failure;
use crate::granted::AcquireClock;
use crate::pending_acquire::AcquireProgress;
use crate::service::Service;

/// A grant between the acquire and the read of its position makes a second acquire return that grant.
const TRIES: u32 = 3;

impl Service {
    /// Acquires a lock, or adds the caller to its queue. A waiter stays there until its grant, its release, the end of its
    /// wait, or the end of its session.
    ///
    /// # Errors
    /// The errors of any write; [`Failure::OutcomeUnknown`] also if the caller leaves the queue meanwhile.
    pub async fn enqueue(&self, acquire: Acquire) -> Result<AcquireProgress, Failure> {
        for _ in 0..TRIES {
            let clock = AcquireClock::start(self.config().wait_max);
            let command = Command::Acquire(acquire.clone());
            let proposed = self.propose_for(command, Reply::into_entry_state).await;
            let state = proposed.inspect_err(|failure| self.count_busy(failure))?;
            let queued = match state.value {
                EntryState::Waiting(queued) => queued.into_iter().next(),
                EntryState::Holding(grants) => {
                    self.metrics().granted.inc();
                    let granted = clock.granted(grants, state.revision);
                    return Ok(AcquireProgress::Done(Box::new(granted)));
                }
            };
            let queued = queued.ok_or(Failure::UnexpectedReply)?;
            let (session, owner) = (acquire.open.session.clone(), acquire.owner.clone());
            let watcher = self.watch_position(&queued.lock, queued.ticket, session, owner);
            if let Some(position) = watcher.now().await {
                return Ok(AcquireProgress::Queued(Box::new(position)));
            }
        }
        Err(Failure::OutcomeUnknown)
    }
}
