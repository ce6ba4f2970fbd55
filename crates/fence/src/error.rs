//! What a guarded write can end with, in terms of what the writer should do next.
//!
//! Owns the meanings; the mapping from a store's own codes lives beside the store's driver. Refuses to know any
//! driver: a store's error is kept as a boxed source.

use std::error::Error;

use holdfast_types::FencingToken;
use thiserror::Error;

/// Why a fenced transaction did not go through. In every case the transaction wrote nothing.
#[derive(Debug, Error)]
pub enum FenceError {
    /// Somebody with a newer token was here: this holder lost its lock. Stop; what was read before is out of
    /// date. To go on, take the lock again and start over with its new token.
    #[error(
        "stale fencing token {token} for \"{resource}\": the newest is {newest}, shown by {}; \
         the lock went to somebody else: stop, and take it again if the work must go on",
        Named(holder.as_deref())
    )]
    Stale {
        /// The protected resource.
        resource: String,
        /// The token that was refused.
        token: FencingToken,
        /// The newest token the resource has seen.
        newest: FencingToken,
        /// Who showed the newest token, if it said so.
        holder: Option<String>,
    },
    /// The write carried no usable token, or one for another resource. A mistake in the program: start the
    /// transaction with the token of the lock's grant.
    #[error("{reason}: start the transaction with the token of the lock's grant")]
    MissingToken {
        /// What the store said: which statement, which table.
        reason: String,
    },
    /// The transaction's snapshot may be older than the predecessor's last write, so the guard does not let it read.
    /// A mistake in the program: the reason names what to change.
    #[error("{reason}")]
    UnsafeSnapshot {
        /// What the store said: the isolation level, and the one to use.
        reason: String,
    },
    /// Another transaction won a race (serialization failure or deadlock). Nothing is known to be wrong with
    /// the token: run the whole transaction again, from its beginning.
    #[error("another transaction came first ({reason}): run the whole transaction again")]
    Conflict {
        /// What the store said.
        reason: String,
    },
    /// The store failed in its own way. If the connection broke during the commit, whether it took effect is
    /// unknown: read before writing again.
    #[error("the store failed: {0}")]
    Store(#[source] Box<dyn Error + Send + Sync>),
}

/// A holder's name as a message shows it.
struct Named<'a>(Option<&'a str>);

impl std::fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(holder) => write!(f, "\"{holder}\""),
            None => f.write_str("nobody named"),
        }
    }
}
