//! Derives holds (lock, session, token, times) from the operations of a history, for all judges.

use std::collections::BTreeMap;

use crate::history::{CallReply, ClientCall, Operation};

/// A hold of a lock that was acknowledged at least once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) lock: String,
    pub(crate) session: String,
    pub(crate) token: u64,
    /// Invocation of the first call that was answered with this token.
    pub(crate) invoked_us: u64,
    /// Time of the first such reply.
    pub(crate) acknowledged_us: u64,
    /// Invocation of the holder's first release or session close; `u64::MAX` if there is none.
    pub(crate) released_us: u64,
}

/// The operations by session, so that a judge needs linear time in the length of the history.
pub(crate) struct Sessions<'a>(BTreeMap<&'a str, Vec<&'a Operation>>);

impl<'a> Sessions<'a> {
    pub(crate) fn of(operations: &'a [Operation]) -> Self {
        let mut sessions: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
        for operation in operations {
            if let Some(session) = session_of(&operation.call) {
                sessions.entry(session).or_default().push(operation);
            }
        }
        Self(sessions)
    }

    /// The operations of this session, in order of invocation.
    pub(crate) fn operations(&self, session: &str) -> &[&'a Operation] {
        self.0.get(session).map_or(&[], Vec::as_slice)
    }

    /// Every acknowledged hold, sorted by lock and token.
    pub(crate) fn holds(&self) -> Vec<Hold> {
        let mut holds: BTreeMap<(&str, u64, &str), Hold> = BTreeMap::new();
        for operation in self.0.values().flatten() {
            let ClientCall::Acquire { lock, session, .. } = &operation.call else { continue };
            let Some((at_us, CallReply::Granted { token, .. })) = operation.answered() else {
                continue;
            };
            let hold = holds.entry((lock, *token, session)).or_insert_with(|| Hold {
                lock: lock.clone(),
                session: session.clone(),
                token: *token,
                invoked_us: operation.invoked_us,
                acknowledged_us: at_us,
                released_us: u64::MAX,
            });
            hold.acknowledged_us = hold.acknowledged_us.min(at_us);
        }
        let mut holds: Vec<Hold> = holds.into_values().collect();
        for hold in &mut holds {
            hold.released_us = self.given_up(hold);
        }
        holds
    }

    /// Invocation of the first release or session close after the grant, whatever its outcome.
    fn given_up(&self, hold: &Hold) -> u64 {
        let gives_up = |operation: &&&Operation| {
            operation.invoked_us >= hold.invoked_us
                && match &operation.call {
                    ClientCall::Release { lock, .. } => *lock == hold.lock,
                    ClientCall::Close { .. } => true,
                    ClientCall::Acquire { .. }
                    | ClientCall::KeepAlive { .. }
                    | ClientCall::Read { .. } => false,
                }
        };
        let attempts = self.operations(&hold.session).iter().filter(gives_up);
        attempts.map(|operation| operation.invoked_us).min().unwrap_or(u64::MAX)
    }

    /// The time until which a session is certainly alive: the maximum of sending time plus TTL over the renewals
    /// acknowledged by `known_us`. Zero if no renewal was acknowledged.
    pub(crate) fn certain_until(&self, session: &str, known_us: u64) -> u64 {
        let renewals = self.operations(session).iter().filter_map(|operation| {
            let ttl_ms = match &operation.call {
                ClientCall::Acquire { ttl_ms, .. } | ClientCall::KeepAlive { ttl_ms, .. } => {
                    *ttl_ms
                }
                ClientCall::Release { .. } | ClientCall::Close { .. } | ClientCall::Read { .. } => {
                    return None;
                }
            };
            let (at_us, _) = operation.answered()?;
            (at_us <= known_us).then(|| operation.invoked_us + ttl_ms * 1_000)
        });
        renewals.max().unwrap_or(0)
    }
}

fn session_of(call: &ClientCall) -> Option<&str> {
    match call {
        ClientCall::Acquire { session, .. }
        | ClientCall::Release { session, .. }
        | ClientCall::KeepAlive { session, .. }
        | ClientCall::Close { session } => Some(session),
        ClientCall::Read { .. } => None,
    }
}
