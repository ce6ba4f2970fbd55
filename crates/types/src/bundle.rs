//! Several locks at once: one place in the queue of each, all of them or none.
//!
//! Owns the words and their bounds. Refuses to know queues and grants: the machine does. Bound: [`AcquireAll::LOCKS_MAX`]
//! locks.

use serde::{Deserialize, Serialize};

use crate::{Attempt, Grant, LockName, Mode, OpenSession, Owner, Queued, SessionName};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcquireAll {
    /// Which locks: from 1 to [`AcquireAll::LOCKS_MAX`], sorted, each once.
    pub locks: Vec<LockName>,
    /// For which session; opened in the same step if it is new.
    pub open: OpenSession,
    pub owner: Owner,
    /// Whether to queue when not all are free; otherwise the answer is a rejection and nothing changes.
    pub wait: bool,
    /// How long the caller waits at most, milliseconds; none if as long as the session lives. The machine only remembers
    /// it: a [`crate::Cancel`] of the place in any of the queues ends the wait in all.
    pub wait_ms: Option<u64>,
    /// How to hold them, all alike: exclusively or shared.
    pub mode: Mode,
    /// The longest the holds last, milliseconds from their grant.
    pub max_hold_ms: Option<u64>,
    /// As of [`crate::Acquire::attempt`], the same for each of the locks.
    pub attempt: Option<Attempt>,
}

impl AcquireAll {
    /// Locks taken at once, at most.
    pub const LOCKS_MAX: usize = 16;

    /// True if the locks are some, not too many, sorted, and each is there once.
    pub fn are_sound(locks: &[LockName]) -> bool {
        (1..=Self::LOCKS_MAX).contains(&locks.len()) && locks.is_sorted_by(|a, b| a < b)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseAll {
    /// Which locks: from 1 to [`AcquireAll::LOCKS_MAX`], sorted, each once.
    pub locks: Vec<LockName>,
    pub session: SessionName,
    pub owner: Owner,
    /// The attempt that is given up, as [`crate::ReleaseTarget::Attempt`] says; none means whatever place there is.
    pub attempt: Option<Attempt>,
}

/// Where one who asked for several locks at once stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StandingAll {
    /// It holds all of them.
    Holding(Vec<Grant>),
    /// It waits for all of them.
    Waiting(Vec<(LockName, Queued)>),
}
