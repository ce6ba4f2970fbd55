//! The rules of a lock, changed while it is in use.
//!
//! Owns what a change means for those who hold and wait. Refuses to know how the next in line is granted.

use holdfast_types::{LockName, Outcome, PolicyChange, Rejection, ZnodePath};

use crate::Machine;
use crate::apply::Step;

impl Machine {
    /// Changes the rules of a lock.
    #[expect(clippy::unused_self, clippy::needless_pass_by_ref_mut, reason = "not yet")]
    pub(crate) fn set_policy(
        &mut self,
        lock: &LockName,
        _: PolicyChange,
        _: &mut Step<'_>,
    ) -> Outcome {
        Err(Rejection::Reserved { path: ZnodePath::of_lock(lock) })
    }
}
