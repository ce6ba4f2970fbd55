//! Constructors of operations for the histories in the judges' tests.

use crate::history::{Answer, Call, Completion, Operation};

pub(crate) const TTL_MS: u64 = 10;

/// An operation invoked at `from` and completed at `to` (milliseconds).
pub(crate) fn op(call: Call, from: u64, to: u64, answer: Answer) -> Operation {
    let completion = Completion::Ok { at_us: to * 1_000, answer };
    Operation { call, invoked_us: from * 1_000, completion }
}

/// An operation invoked at `from` (milliseconds) that gets no reply.
pub(crate) fn lost(call: Call, from: u64) -> Operation {
    Operation { call, invoked_us: from * 1_000, completion: Completion::Unknown }
}

pub(crate) fn acquire(lock: &str, session: &str) -> Call {
    Call::Acquire { lock: lock.into(), session: session.into(), ttl_ms: TTL_MS }
}

pub(crate) fn release(lock: &str, session: &str) -> Call {
    Call::Release { lock: lock.into(), session: session.into() }
}

pub(crate) fn keep_alive(session: &str) -> Call {
    Call::KeepAlive { session: session.into(), ttl_ms: TTL_MS }
}

pub(crate) fn close(session: &str) -> Call {
    Call::Close { session: session.into() }
}

pub(crate) fn read(lock: &str) -> Call {
    Call::Read { lock: lock.into() }
}

pub(crate) fn granted(token: u64) -> Answer {
    Answer::Granted { token }
}

pub(crate) fn shows(holder: Option<(&str, u64)>, waiters: &[&str]) -> Answer {
    let holder = holder.map(|(session, token)| (session.to_owned(), token));
    Answer::Lock { holder, waiters: waiters.iter().map(ToString::to_string).collect() }
}
