//! Reading locks, releasing them, and changing their policy.

use holdfast_machine::LockFilter;
use holdfast_types::{
    Command, FenceView, FencingToken, Grant, HandOver, LockName, LockPolicy, LockView, Page,
    PolicyChange, Release, ReleaseTarget, Released, Reply, RequestRelease, Right,
};

use crate::auth::authorization::allows;
use crate::context::{ReadMode, Response};
use crate::failure::Failure;
use crate::service::Service;

/// The tokens that a fence check accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceMode {
    /// Only the token of a current holder.
    Current,
    /// Any token at or above the smallest token of the holders. Without a holder: at or above the last minted token.
    Monotonic,
}

#[derive(Clone, Copy, Debug)]
pub struct TokenCheck {
    pub valid: bool,
    /// The lock's tokens that the check compared.
    pub view: FenceView,
}

/// The maximum number of waiters listed in the view of a lock; the view also has their total number.
pub(crate) const WAITERS_SHOWN: usize = 100;

impl Service {
    /// Releases locks, or leaves their queues.
    ///
    /// # Errors
    /// A [`Failure`] states the reason, and whether the command may have taken effect. This applies to all methods
    /// here.
    pub async fn release(&self, release: Release) -> Result<Response<Released>, Failure> {
        let is_of_attempt = matches!(release.target, ReleaseTarget::Attempt(_));
        match self.propose(Command::Release(release), Reply::into_released).await {
            // As for a session that does not exist.
            Err(failure) if is_of_attempt && failure.is_hidden_session() => {
                let nothing = Released { hold_count: 0, changed: false };
                Ok(Response::new(nothing, self.revision()))
            }
            released => released,
        }
    }

    /// Requests holders to release a lock. Returns the number of holders that received the request.
    pub async fn request_release(&self, request: RequestRelease) -> Result<Response<u32>, Failure> {
        self.propose(Command::RequestRelease(request), Reply::into_release_requested).await
    }

    /// Hands a hold to another session. Returns the new hold of that session.
    pub async fn hand_over(&self, hand_over: HandOver) -> Result<Response<Grant>, Failure> {
        self.propose(Command::HandOver(hand_over), Reply::into_handed_over).await
    }

    /// Changes the policy of a lock. Returns the complete policy.
    pub async fn set_policy(
        &self,
        lock: LockName,
        change: PolicyChange,
    ) -> Result<Response<LockPolicy>, Failure> {
        self.propose(Command::SetPolicy { lock, change }, Reply::into_policy).await
    }

    /// Returns the holders and the first waiters of a lock.
    pub async fn lock(
        &self,
        lock: &LockName,
        mode: ReadMode,
    ) -> Result<Response<LockView>, Failure> {
        self.read(mode, |machine| {
            self.check(machine, Right::LockRead, lock.as_str())?;
            Ok(machine.lock(lock, WAITERS_SHOWN))
        })
        .await
    }

    /// Returns at most `limit` locks in name order, starting after `after`.
    pub async fn locks(
        &self,
        filter: &LockFilter,
        after: Option<&str>,
        limit: usize,
        mode: ReadMode,
    ) -> Result<Response<Page<LockView>>, Failure> {
        self.read(mode, |machine| {
            let rights = self.enforced_rights(machine)?;
            let is_visible = |lock: &LockName| allows(rights, Right::LockRead, lock.as_str());
            Ok(machine.locks(filter, after, limit, is_visible))
        })
        .await
    }

    pub async fn check_token(
        &self,
        lock: &LockName,
        token: FencingToken,
        accepted: FenceMode,
        mode: ReadMode,
    ) -> Result<Response<TokenCheck>, Failure> {
        self.read(mode, |machine| {
            self.check(machine, Right::LockCheck, lock.as_str())?;
            let view = machine.fence(lock);
            let valid = match accepted {
                FenceMode::Current => machine.is_held_with(lock, token),
                FenceMode::Monotonic => is_not_overtaken(token, view),
            };
            Ok(TokenCheck { valid, view })
        })
        .await
    }
}

/// With a holder, only tokens below the floor are stale. Without one, tokens older than the last grant are stale.
fn is_not_overtaken(token: FencingToken, view: FenceView) -> bool {
    match view.current {
        Some(_) => token >= view.floor,
        None => view.highest.is_none_or(|highest| token >= highest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_rejects_overtaken_tokens() {
        let [old, floor, newest, next] = [5, 7, 9, 10].map(FencingToken);
        let held = FenceView { current: Some(newest), floor, highest: Some(newest) };
        assert!(is_not_overtaken(floor, held) && is_not_overtaken(newest, held));
        assert!(!is_not_overtaken(old, held));
        let free = FenceView { current: None, floor: next, highest: Some(newest) };
        assert!(is_not_overtaken(newest, free) && !is_not_overtaken(floor, free));
        assert!(is_not_overtaken(old, FenceView { highest: None, ..free }));
    }
}
