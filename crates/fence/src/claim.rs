//! What a holder shows to a store, and the rule by which a store judges it.
//!
//! Owns the rule: a mark rises to the floor and never falls, a token not below the mark passes. Every guard of this
//! crate that is not written in its store's own language calls it. Refuses to know any store.

use holdfast_types::FencingToken;

use crate::FenceError;

/// A holder's claim on a resource: the token of its grant, and the smallest token that may still be good.
///
/// A plain token is the claim of an exclusive holder, whose floor is the token itself. Holders that share a lock, or
/// hold a permit each, show the `floor` of their grant beside it, so that they do not shut out each other. Permits
/// that shall be told apart one by one are resources of their own: `pool#0`, `pool#1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    token: FencingToken,
    /// Invariant, kept by [`Claim::check`]: 1 ≤ floor ≤ token < 2^53.
    floor: FencingToken,
}

impl Claim {
    /// The only holder's.
    pub const fn exclusive(token: FencingToken) -> Self {
        Self { token, floor: token }
    }

    /// One of several holders'. The floor comes with the grant.
    pub const fn shared(token: FencingToken, floor: FencingToken) -> Self {
        Self { token, floor }
    }

    /// The token of the grant.
    pub const fn token(self) -> FencingToken {
        self.token
    }

    /// The smallest token that may still be good.
    pub const fn floor(self) -> FencingToken {
        self.floor
    }

    /// Refuses numbers that no grant carries: zero, 2^53 and above, a floor above its token.
    ///
    /// # Errors
    /// [`FenceError::MissingToken`] names the number.
    pub fn check(self) -> Result<Self, FenceError> {
        let Self { token, floor } = self;
        let reason = if token.0 == 0 || token.0 >= FencingToken::END {
            format!("{token} is not a fencing token, they are above 0 and below 2^53")
        } else if floor.0 == 0 || floor > token {
            format!("the floor {floor} does not belong to the token {token}")
        } else {
            return Ok(self);
        };
        Err(FenceError::MissingToken { reason })
    }

    /// The rule: the mark of `resource` after this claim, which was `mark` before (`None`: never seen).
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

/// Refuses the resource without a name, which every forgotten variable would share.
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

/// The token and the floor as a database's signed 64-bit numbers.
///
/// # Errors
/// [`FenceError::MissingToken`] as [`Claim::check`].
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(crate) fn numbers(claim: Claim) -> Result<(i64, i64), FenceError> {
    let Claim { token, floor } = claim.check()?;
    // Below 2^53: the sign bit is free.
    Ok((token.0.cast_signed(), floor.0.cast_signed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(claim: Claim, mark: Option<u64>) -> Result<u64, String> {
        let judged = claim.judge("orders", mark.map(FencingToken));
        judged.map(|mark| mark.0).map_err(|error| error.to_string())
    }

    #[test]
    fn equal_or_larger_passes_and_smaller_is_refused() {
        let claim = Claim::exclusive(FencingToken(34));
        assert_eq!(mark(claim, None), Ok(34));
        assert_eq!(mark(claim, Some(33)), Ok(34));
        assert_eq!(mark(claim, Some(34)), Ok(34));
        let refusal = mark(claim, Some(35)).unwrap_err();
        assert!(refusal.starts_with("stale fencing token 34 for \"orders\": the newest is 35"));
    }

    #[test]
    fn a_shared_claim_raises_the_mark_to_its_floor_only() {
        let claim = Claim::shared(FencingToken(34), FencingToken(30));
        assert_eq!(mark(claim, None), Ok(30));
        assert_eq!(mark(claim, Some(29)), Ok(30));
        assert_eq!(mark(claim, Some(32)), Ok(32));
        assert!(mark(claim, Some(35)).is_err());
    }

    #[test]
    fn numbers_that_no_grant_carries_are_refused() {
        for (token, floor) in [(0, 0), (FencingToken::END, 1), (5, 0), (5, 6)] {
            let claim = Claim::shared(FencingToken(token), FencingToken(floor));
            assert!(matches!(claim.check(), Err(FenceError::MissingToken { .. })), "{claim:?}");
        }
        assert!(Claim::exclusive(FencingToken(FencingToken::END - 1)).check().is_ok());
    }
}
