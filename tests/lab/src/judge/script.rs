//! Constructors of operations for the histories in the judges' tests.

use crate::history::{CallReply, ClientCall, Completion, Operation};

pub(crate) const TTL_MS: u64 = 10;

/// An operation invoked at `from` and completed at `to` (milliseconds).
pub(crate) fn op(call: ClientCall, from: u64, to: u64, answer: CallReply) -> Operation {
    let completion = Completion::Ok { at_us: to * 1_000, answer };
    Operation { call, invoked_us: from * 1_000, completion }
}

/// An operation invoked at `from` (milliseconds) that gets no reply.
pub(crate) fn lost(call: ClientCall, from: u64) -> Operation {
    Operation { call, invoked_us: from * 1_000, completion: Completion::Unknown }
}

pub(crate) fn acquire(lock: &str, session: &str) -> ClientCall {
    acquire_again(lock, session, 1)
}

/// An acquire of another wait of the session.
pub(crate) fn acquire_again(lock: &str, session: &str, attempt: u64) -> ClientCall {
    let (lock, session) = (lock.into(), session.into());
    ClientCall::Acquire { lock, session, ttl_ms: TTL_MS, attempt }
}

pub(crate) fn release(lock: &str, session: &str) -> ClientCall {
    ClientCall::Release { lock: lock.into(), session: session.into() }
}

pub(crate) fn keep_alive(session: &str) -> ClientCall {
    ClientCall::KeepAlive { session: session.into(), ttl_ms: TTL_MS }
}

pub(crate) fn close(session: &str) -> ClientCall {
    ClientCall::Close { session: session.into() }
}

pub(crate) fn read(lock: &str) -> ClientCall {
    ClientCall::Read { lock: lock.into() }
}

pub(crate) fn granted(token: u64) -> CallReply {
    CallReply::Granted { token, ticket: 0 }
}

pub(crate) fn granted_to(ticket: u64, token: u64) -> CallReply {
    CallReply::Granted { token, ticket }
}

pub(crate) fn shows(holder: Option<(&str, u64)>, waiters: &[u64]) -> CallReply {
    let holder = holder.map(|(session, token)| (session.to_owned(), token));
    CallReply::Lock { holder, waiters: waiters.to_vec() }
}
