//! How a hold ends or changes hands otherwise than by being given back: it is asked for, handed over, or broken.
//!
//! Owns the words and their bounds. Refuses to know queues and grants: the machine does. Bounds: a reason by
//! [`Reason::MAX_LEN`], a deadline by [`AskRelease::DEADLINE_MAX_MS`].

use serde::{Deserialize, Serialize};

use crate::{FencingToken, LockName, Owner, Reason, SessionName, Stamp, Ticket};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Break {
    pub lock: LockName,
    pub what: Broken,
    /// Why, for those who lose it and for the audit.
    pub reason: Reason,
}

/// Places that an operator takes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Broken {
    /// Those of everybody who holds when the command takes effect. Sent again it takes away those of whoever came after.
    Holders,
    /// That of this ticket, held or waiting.
    Ticket(Ticket),
    /// That of this number in the lock's directory, held or waiting.
    Sequence(u64),
    /// The hold of this token, if it still is one: sent again it takes nothing from whoever came after.
    Token(FencingToken),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskRelease {
    pub lock: LockName,
    /// Which holder; none means all of them.
    pub holder: Option<(SessionName, Owner)>,
    /// Why, for the holder to see.
    pub reason: Option<Reason>,
    /// By when, milliseconds from now; from 1 to [`AskRelease::DEADLINE_MAX_MS`].
    pub deadline_ms: u64,
    /// Whether the hold is taken away then.
    pub revoke: bool,
}

impl AskRelease {
    /// The longest time to give something back: thirty days.
    pub const DEADLINE_MAX_MS: u64 = 30 * 86_400_000;
}

/// A holder is asked to give the lock back.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReleaseRequest {
    pub reason: Option<Reason>,
    /// When it was asked.
    pub asked_at: Stamp,
    /// By when it is wanted.
    pub deadline: Stamp,
    /// Whether the hold is taken away then.
    pub revoke: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandOver {
    pub lock: LockName,
    /// Who holds it.
    pub from: (SessionName, Owner),
    /// Who is to hold it.
    pub to: (SessionName, Owner),
    /// The hold that is meant: another one stays. A copy of the call gets the first answer as long as the receiving session
    /// remembers it. None means whatever hold there is.
    pub token: Option<FencingToken>,
}
