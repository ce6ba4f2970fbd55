//! Fields of the `tracing` spans `acquire`, `renew` and `release`.
//!
//! All spans and events have the level debug. A public call has one span, however many calls of the HTTP API it sends.

use std::sync::Arc;

use holdfast_types::{Attempt, SessionName};
use tracing::Span;

use crate::locks::queue_entry::ClientQueueEntry;

/// The lock names of one or more queue entries: `a,b`.
pub(crate) fn locks(entries: &[Arc<ClientQueueEntry>]) -> String {
    let names: Vec<&str> = entries.iter().map(|entry| entry.lock().as_str()).collect();
    names.join(",")
}

/// Records the session in the current span.
pub(crate) fn record_session(session: &SessionName) {
    Span::current().record("session", tracing::field::display(session));
}

/// Records the attempt in the current span.
pub(crate) fn record_attempt(attempt: Attempt) {
    Span::current().record("attempt", attempt.0);
}
