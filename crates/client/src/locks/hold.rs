//! The state of a held lock, for the work under the lock. A view does not keep the lock.
//!
//! Every method compares the clock with the deadline. A process that was paused therefore sees the loss before any
//! timer has run and any answer has arrived. Invariant: a lost hold stays lost.

use std::fmt;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use holdfast_api::GrantBody;
use holdfast_types::{FencingToken, LockName, Mode, SessionName};
use tokio::sync::watch;

use crate::calls::retry::Answer;
use crate::calls::send::timer;
use crate::clock::Moment;
use crate::locks::lock_request::{ClientLockRequest, RequestedChange};
use crate::locks::queue_entry::{ClientQueueEntry, release_call};
use crate::sessions::session::Session;
use crate::{Error, Loss, ReleaseRequest, numbers};

/// A view of a held lock. Clones are cheap. A view does not keep the lock; only the [`Guard`](crate::Guard) does.
#[derive(Clone)]
pub struct Hold {
    pub(crate) session: Arc<Session>,
    pub(crate) entry: Arc<ClientQueueEntry>,
    /// The latest grant. A conversion may change its token.
    pub(crate) grant: Arc<watch::Sender<Arc<GrantBody>>>,
}

/// The lock, the token, the session and whether the lock is held, on one line.
impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe("Hold", f)
    }
}

impl Hold {
    /// Writes `Guard { lock: "orders", token: 7, session: "web1", held for 12s }`.
    pub(crate) fn describe(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lock, token, session) = (self.lock(), self.token(), self.session());
        write!(f, "{name} {{ lock: \"{lock}\", token: {token}, session: \"{session}\", ")?;
        let now = Moment::now();
        match self.deadline_or_loss(now) {
            Ok(deadline) => write!(f, "held for {:?} }}", deadline.left(now)),
            Err(loss) => write!(f, "lost: {loss} }}"),
        }
    }

    /// Changes the hold, and never acquires the lock. Takes a larger number once if another program of the session has
    /// one.
    pub(crate) async fn change(
        &self,
        request: &ClientLockRequest,
        change: &RequestedChange,
    ) -> Result<Answer<GrantBody>, Error> {
        let (session, changed) = (&self.session, self.entry.attempt());
        let calls = session.calls.with_timeout(request.request_timeout);
        let send = async |by| {
            let call = request.change_call(session.id(), changed, by, change, Duration::ZERO);
            calls.deliver(&call).await.json().result
        };
        numbers::with_attempt(changed.unwrap_or_default(), send).await
    }

    /// The fencing token to send with every write under the lock. An [upgrade](crate::Guard::upgrade) replaces it in
    /// every view of the hold.
    pub fn token(&self) -> FencingToken {
        self.grant.borrow().token
    }

    /// The smallest token of the lock that was still valid at the grant: the floor of a shared holder or a permit, for
    /// `holdfast_fence::Claim::shared`.
    pub fn min_valid_token(&self) -> FencingToken {
        self.grant.borrow().min_valid_token
    }

    /// The name of the lock; of a sharded lock, the name of the shard: `stock/3`.
    pub fn lock(&self) -> &LockName {
        self.entry.lock()
    }

    /// The shard number, if the lock is sharded.
    pub fn shard(&self) -> Option<u32> {
        self.grant.borrow().shard
    }

    /// The session that holds the lock.
    pub fn session(&self) -> &SessionName {
        &self.session.name
    }

    pub fn mode(&self) -> Mode {
        self.grant.borrow().mode
    }

    /// The number of permits; 1 unless the lock is a semaphore.
    pub fn permits(&self) -> u32 {
        self.grant.borrow().permits
    }

    /// A slot for each permit, from 0 up to the limit. No other holder has the same slot at the same time.
    pub fn slots(&self) -> Vec<u32> {
        self.grant.borrow().slots.clone()
    }

    /// The resource names under which a store keeps the largest token, one for each slot: `workers#3`. The store then
    /// rejects a lost permit without affecting the other permits.
    pub fn fence_resources(&self) -> Vec<String> {
        self.slots().iter().map(|slot| format!("{}#{slot}", self.lock())).collect()
    }

    /// The header for an HTTP service that checks tokens. It has no resource if the lock's name has other characters than
    /// printable ASCII, because HTTP libraries reject them.
    pub fn headers(&self) -> [(&'static str, String); 1] {
        let (token, floor) = (self.token(), self.min_valid_token());
        [("Fencing-Token", fencing_header(token, self.lock().as_str(), floor))]
    }

    /// The latest grant as a node returned it.
    pub fn grant(&self) -> Arc<GrantBody> {
        self.grant.borrow().clone()
    }

    /// Whether the lock is certainly still held.
    pub fn is_held(&self) -> bool {
        self.ensure().is_ok()
    }

    /// The time until the deadline, which moves with every renewal; zero if the lock is lost.
    pub fn remaining(&self) -> Duration {
        self.deadline_moment().map_or(Duration::ZERO, |deadline| deadline.left(Moment::now()))
    }

    /// No other client can hold the lock before this instant, which moves with every renewal.
    pub fn deadline(&self) -> Instant {
        Instant::now() + self.remaining()
    }

    /// The deadline on a clock that also advances while the machine is suspended; `None` if the lock is lost.
    pub fn deadline_moment(&self) -> Option<Moment> {
        self.deadline_or_loss(Moment::now()).ok()
    }

    /// The moment at which `max_hold` ends the hold, which no renewal moves; `None` without a limit.
    pub fn max_hold_end(&self) -> Option<Moment> {
        self.entry.limits.borrow().max_hold_end()
    }

    /// Checks that the lock is certainly still held: call it with `?` right before each write.
    ///
    /// # Errors
    /// The loss.
    pub fn ensure(&self) -> Result<(), Loss> {
        self.deadline_or_loss(Moment::now()).map(drop)
    }

    /// Returns the loss that occurs if nothing changes before the deadline.
    pub fn next_loss(&self) -> Loss {
        let at = self.deadline_moment().unwrap_or_else(Moment::now);
        self.deadline_or_loss(at).err().unwrap_or(Loss::SessionEnded)
    }

    /// Reports progress of the work, for a lock with a [progress timeout](crate::Lock::progress_timeout).
    ///
    /// # Errors
    /// The loss: a late report does not restore the hold.
    pub fn report_progress(&self) -> Result<(), Loss> {
        let now = Moment::now();
        self.deadline_or_loss(now)?;
        let mut result = Ok(());
        self.entry.limits.send_modify(|limits| result = limits.report_progress(now));
        result
    }

    /// Resolves when the lock is lost; never, if it is released first.
    pub async fn lost(&self) -> Loss {
        let mut known = Moment::now();
        loop {
            match self.deadline_after(known).await {
                Ok(deadline) => known = deadline,
                Err(loss) => return loss,
            }
        }
    }

    /// Resolves with the remaining time when the lock is at risk: two thirds of the lease have passed without an
    /// acknowledged renewal. A renewal may still save it. Resolves immediately with zero if the lock is lost.
    pub async fn at_risk(&self) -> Duration {
        let mut lease = self.session.lease.subscribe();
        loop {
            let at_risk_from = lease.borrow_and_update().at_risk_from();
            let now = Moment::now();
            if self.deadline_or_loss(now).is_err() || now >= at_risk_from {
                return self.remaining();
            }
            tokio::select! {
                _changed = lease.changed() => {}
                _loss = self.lost() => {}
                () = timer(at_risk_from) => {}
            }
        }
    }

    /// Resolves with the latest release request (`holdfast unlock --ask`), immediately if one has already arrived. The hold
    /// continues: finish the work and release the guard.
    pub async fn release_requested(&self) -> ReleaseRequest {
        self.release_requested_after(None).await
    }

    /// Resolves with the latest release request other than `known`.
    pub async fn release_requested_after(&self, known: Option<&ReleaseRequest>) -> ReleaseRequest {
        let mut latest = self.entry.release_request.subscribe();
        loop {
            if let Some(request) = latest.borrow_and_update().as_ref()
                && known != Some(request)
            {
                return request.clone();
            }
            // The sender lives as long as the entry.
            drop(latest.changed().await);
        }
    }

    /// Resolves with the deadline once it differs from `known`: later after a renewal or a
    /// [progress report](Hold::report_progress), earlier after a request that revokes.
    ///
    /// # Errors
    /// The loss.
    pub async fn deadline_after(&self, known: Moment) -> Result<Moment, Loss> {
        deadline_after(std::slice::from_ref(self), known).await
    }

    /// Path and query of the `DELETE` that releases this hold and no other. Another process can release the hold of a
    /// killed process with it.
    pub fn release_target(&self) -> String {
        release_call(std::slice::from_ref(&self.entry), &self.session.name).target
    }

    /// Returns the earliest of all deadlines, or the loss.
    fn deadline_or_loss(&self, now: Moment) -> Result<Moment, Loss> {
        let limit = self.entry.limits.borrow().next_deadline(now)?;
        let session = self.session.deadline_or_loss(now)?;
        Ok(limit.map_or(session, |limit| limit.min(session)))
    }
}

/// Returns the earliest deadline of the holds, or the loss of one of them. A guard without holds has released each lock.
pub(crate) fn first_deadline(holds: &[Hold], now: Moment) -> Result<Moment, Loss> {
    let deadlines: Result<Vec<_>, _> =
        holds.iter().map(|hold| hold.deadline_or_loss(now)).collect();
    deadlines?.into_iter().min().ok_or(Loss::ReleasedElsewhere)
}

/// Resolves with the earliest deadline of the holds once it differs from `known`.
pub(crate) async fn deadline_after(holds: &[Hold], known: Moment) -> Result<Moment, Loss> {
    let subscribe = |hold: &Hold| (hold.session.lease.subscribe(), hold.entry.limits.subscribe());
    let mut receivers: Vec<_> = holds.iter().map(subscribe).collect();
    loop {
        for (lease, limits) in &mut receivers {
            lease.mark_unchanged();
            limits.mark_unchanged();
        }
        let deadline = first_deadline(holds, Moment::now())?;
        if deadline != known {
            return Ok(deadline);
        }
        // The senders live as long as the holds.
        let changes = receivers.iter_mut().map(async |(lease, limits)| {
            tokio::select! {
                _changed = lease.changed() => {}
                _changed = limits.changed() => {}
            }
        });
        tokio::select! {
            _changed = first_of(changes) => {}
            () = timer(deadline) => {}
        }
    }
}

/// Resolves with the first loss and the index of its hold.
pub(crate) async fn first_loss(holds: &[Hold]) -> (usize, Loss) {
    first_of(holds.iter().map(Hold::lost)).await
}

/// Resolves with the output of the first future that resolves, and its index.
pub(crate) async fn first_of<F: Future>(futures: impl Iterator<Item = F>) -> (usize, F::Output) {
    let mut futures: Vec<_> = futures.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        for (index, future) in futures.iter_mut().enumerate() {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready((index, output));
            }
        }
        Poll::Pending
    })
    .await
}

/// `34; resource="orders"; floor=30`
fn fencing_header(token: FencingToken, resource: &str, floor: FencingToken) -> String {
    let mut resource_part = String::new();
    if resource.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        let quoted = resource.replace('\\', "\\\\").replace('"', "\\\"");
        resource_part = format!("; resource=\"{quoted}\"");
    }
    let floor_part = if floor == token { String::new() } else { format!("; floor={floor}") };
    format!("{token}{resource_part}{floor_part}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fencing_header_has_a_floor_only_beside_other_holders_and_a_resource_only_in_ascii() {
        let header =
            |resource, floor| fencing_header(FencingToken(34), resource, FencingToken(floor));
        assert_eq!(header("orders", 34), r#"34; resource="orders""#);
        assert_eq!(header("orders", 30), r#"34; resource="orders"; floor=30"#);
        assert_eq!(header(r#"a"b\c"#, 34), r#"34; resource="a\"b\\c""#);
        assert_eq!(header("größe", 34), "34");
    }
}
