//! A spin lock: `SET key random NX PX ttl` in a loop without a pause.

use super::{SetNxPx, connect};
use crate::limitation::Limitation::{
    ExpiresUnderHolder, LostOnFailover, NoToken, OneServer, Polls, Spins, Unfair,
};
use crate::lock::{LockKind, LockSettings};
use crate::wait::Pause;

pub const LOCK: LockKind = LockKind {
    name: "redis-spin",
    limitations: &[Spins, ExpiresUnderHolder, NoToken, Polls, Unfair, LostOnFailover, OneServer],
    connect: |target| {
        connect(target, |connection, settings| {
            SetNxPx::new(connection, LockSettings { pause: Pause::NONE, ..settings })
        })
    },
};
