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
    ClientCall::Acquire { lock: lock.into(), session: session.into(), ttl_ms: TTL_MS }
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
    CallReply::Granted { token }
}

pub(crate) fn shows(holder: Option<(&str, u64)>, waiters: &[&str]) -> CallReply {
    let holder = holder.map(|(session, token)| (session.to_owned(), token));
    CallReply::Lock { holder, waiters: waiters.iter().map(ToString::to_string).collect() }
}
