//! Why a guarded write failed, by what the writer should do next.

use std::error::Error;

use holdfast_types::FencingToken;
use thiserror::Error;

/// Why a fenced transaction failed. In every case the transaction wrote nothing.
#[derive(Debug, Error)]
pub enum FenceError {
    /// The resource has seen a newer token, so this holder lost its lock. Stop: data that was read before is outdated.
    /// To continue, acquire the lock again and start over with the new token.
    #[error(
        "stale fencing token {token} for \"{resource}\": the newest is {newest}, from {}; \
         another holder has the lock: stop, and acquire it again to continue",
        HolderName(holder.as_deref())
    )]
    Stale {
        /// The protected resource.
        resource: String,
        /// The rejected token.
        token: FencingToken,
        /// The mark of the resource.
        newest: FencingToken,
        /// The holder with the newest token, if it gave its name.
        holder: Option<String>,
    },
    /// The write had no valid token, or a token for another resource. Fix the program: start the transaction with the
    /// token of the grant.
    #[error("{reason}: start the transaction with the token of the lock's grant")]
    MissingToken {
        /// The message of the store: the statement and the table.
        reason: String,
    },
    /// The snapshot of the transaction may be older than the last write of the previous holder. Fix the program: the
    /// reason names what to change.
    #[error("{reason}")]
    UnsafeSnapshot {
        /// The message of the store: the isolation level, and the one to use.
        reason: String,
    },
    /// Another transaction was faster (serialization failure or deadlock). The token may be valid: run the whole
    /// transaction again.
    #[error("another transaction was faster ({reason}): run the whole transaction again")]
    Conflict {
        /// The message of the store.
        reason: String,
    },
    /// Another error of the store. If the connection failed during the commit, the outcome is unknown: read before you
    /// write again.
    #[error("the store failed: {}", Causes(.0.as_ref()))]
    Store(#[source] Box<dyn Error + Send + Sync>),
}

/// An error and its causes, each once. Errors of database drivers name the reason only in a cause.
struct Causes<'a>(&'a (dyn Error + 'static));

impl std::fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = self.0.to_string();
        let mut next = self.0.source();
        while let Some(cause) = next {
            let words = cause.to_string();
            if !text.contains(&words) {
                text = format!("{text}: {words}");
            }
            next = cause.source();
        }
        f.write_str(&text)
    }
}

/// The name of a holder in a message.
struct HolderName<'a>(Option<&'a str>);

impl std::fmt::Display for HolderName<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(holder) => write!(f, "\"{holder}\""),
            None => f.write_str("an unnamed holder"),
        }
    }
}
