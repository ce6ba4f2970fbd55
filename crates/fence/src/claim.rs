//! The claim of a holder on a resource, the rule that accepts or rejects it, and why a guarded write failed.
//!
//! A token that is not below the mark is accepted. The mark rises to the floor of the claim and never falls.

use std::error::Error;

use holdfast_types::FencingToken;
use thiserror::Error;

/// The claim of a holder on a resource: the token of its grant, and the smallest token that may still be valid.
///
/// The floor of an exclusive holder is its token. Holders that share a lock or hold permits send the `floor` of their
/// grant too, so that they do not reject each other. To protect permits one by one, use a resource for each: `pool#0`,
/// `pool#1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    token: FencingToken,
    /// Invariant, kept by [`Claim::check`]: 1 ≤ floor ≤ token < 2^53.
    floor: FencingToken,
}

impl Claim {
    /// The claim of an exclusive holder.
    pub const fn exclusive(token: FencingToken) -> Self {
        Self { token, floor: token }
    }

    /// The claim of a shared holder. The grant has the floor.
    pub const fn shared(token: FencingToken, floor: FencingToken) -> Self {
        Self { token, floor }
    }

    pub const fn token(self) -> FencingToken {
        self.token
    }

    /// The smallest token that may still be valid.
    pub const fn floor(self) -> FencingToken {
        self.floor
    }

    /// Rejects numbers that no grant has: zero, 2^53 and above, a floor above its token.
    ///
    /// # Errors
    /// [`FenceError::MissingToken`] names the number.
    pub fn check(self) -> Result<Self, FenceError> {
        let Self { token, floor } = self;
        let reason = if token.0 == 0 || token.0 >= FencingToken::END {
            format!("{token} is not a fencing token: tokens are above 0 and below 2^53")
        } else if floor.0 == 0 || floor > token {
            format!("the floor {floor} is not between 1 and its token {token}")
        } else {
            return Ok(self);
        };
        Err(FenceError::MissingToken { reason })
    }

    /// The mark of `resource` after this claim. `mark` is the mark before; `None` for a new resource.
    ///
    /// # Errors
    /// [`FenceError::Stale`] if the token is below the mark, [`FenceError::MissingToken`] as [`Claim::check`].
    pub fn judge(
        self,
        resource: &str,
        mark: Option<FencingToken>,
    ) -> Result<FencingToken, FenceError> {
        let Self { token, floor } = self.check()?;
        match mark {
            Some(newest) if token < newest => Err(FenceError::Stale {
                resource: resource.to_owned(),
                token,
                newest,
                holder: None,
            }),
            Some(mark) => Ok(mark.max(floor)),
            None => Ok(floor),
        }
    }
}

impl From<FencingToken> for Claim {
    fn from(token: FencingToken) -> Self {
        Self::exclusive(token)
    }
}

/// Rejects an empty resource name, which is usually a variable that was not set.
///
/// # Errors
/// [`FenceError::MissingToken`].
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite", feature = "redis"))]
pub(crate) fn named(resource: &str) -> Result<&str, FenceError> {
    if resource.is_empty() {
        let reason = "the resource has no name".to_owned();
        return Err(FenceError::MissingToken { reason });
    }
    Ok(resource)
}

/// The token and the floor as signed 64-bit numbers for a database.
///
/// # Errors
/// [`FenceError::MissingToken`] as [`Claim::check`].
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(crate) fn numbers(claim: Claim) -> Result<(i64, i64), FenceError> {
    let Claim { token, floor } = claim.check()?;
    // Both are below 2^53.
    Ok((token.0.cast_signed(), floor.0.cast_signed()))
}

/// The error of a token below the mark, from the row of the mark in a database: its token and its holder.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(crate) fn stale(
    resource: &str,
    token: FencingToken,
    mark: Option<(u64, Option<String>)>,
) -> FenceError {
    match mark {
        Some((newest, holder)) => {
            let (resource, newest) = (resource.to_owned(), FencingToken(newest));
            FenceError::Stale { resource, token, newest, holder }
        }
        None => FenceError::Conflict { reason: "the mark was deleted".to_owned() },
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(claim: Claim, mark: Option<u64>) -> Result<u64, String> {
        let judged = claim.judge("orders", mark.map(FencingToken));
        judged.map(|mark| mark.0).map_err(|error| error.to_string())
    }

    #[test]
    fn an_equal_or_larger_token_passes_and_a_smaller_one_is_rejected() {
        let claim = Claim::exclusive(FencingToken(34));
        assert_eq!(mark(claim, None), Ok(34));
        assert_eq!(mark(claim, Some(33)), Ok(34));
        assert_eq!(mark(claim, Some(34)), Ok(34));
        let rejection = mark(claim, Some(35)).unwrap_err();
        assert!(rejection.starts_with("stale fencing token 34 for \"orders\": the newest is 35"));
    }

    #[test]
    fn a_shared_claim_raises_the_mark_only_to_its_floor() {
        let claim = Claim::shared(FencingToken(34), FencingToken(30));
        assert_eq!(mark(claim, None), Ok(30));
        assert_eq!(mark(claim, Some(29)), Ok(30));
        assert_eq!(mark(claim, Some(32)), Ok(32));
        assert!(mark(claim, Some(35)).is_err());
    }

    #[test]
    fn numbers_that_no_grant_has_are_rejected() {
        for (token, floor) in [(0, 0), (FencingToken::END, 1), (5, 0), (5, 6)] {
            let claim = Claim::shared(FencingToken(token), FencingToken(floor));
            assert!(matches!(claim.check(), Err(FenceError::MissingToken { .. })), "{claim:?}");
        }
        assert!(Claim::exclusive(FencingToken(FencingToken::END - 1)).check().is_ok());
    }
}
