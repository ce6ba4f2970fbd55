//! Compares the stores with the rule: for any sequence of claims, a store returns the same as [`Claim::judge`].

use std::cell::RefCell;

use holdfast_fence::{Claim, FenceError, FencingToken};
use proptest::collection::vec;
use proptest::prelude::*;
use tokio::runtime::Runtime;

use crate::search::{cases, runner};

/// A store with one resource.
pub(crate) trait TestStore {
    /// The resource that rejections name.
    fn resource(&self) -> String;
    /// Deletes the mark.
    async fn forget(&mut self);
    /// Passes a claim to the guard, and commits the result.
    async fn show(&mut self, claim: Claim) -> Result<(), FenceError>;
}

/// Small tokens that are close together, and the largest valid tokens.
fn claim() -> impl Strategy<Value = Claim> {
    let top = FencingToken::END - 1;
    let token = prop_oneof![8 => 1..12_u64, 2 => top - 3..=top];
    (token, 0..4_u64, any::<bool>()).prop_map(|(token, below, shared)| {
        let token = FencingToken(token);
        let floor = FencingToken(token.0.saturating_sub(below).max(1));
        if shared { Claim::shared(token, floor) } else { token.into() }
    })
}

/// `Ok`, or the facts of a rejection.
fn verdict<T>(outcome: Result<T, FenceError>) -> Result<(), (String, u64, u64)> {
    match outcome {
        Ok(_) => Ok(()),
        Err(FenceError::Stale { resource, token, newest, .. }) => {
            Err((resource, token.0, newest.0))
        }
        Err(other) => panic!("{other}"),
    }
}

/// Equal and larger tokens pass, smaller ones are rejected, and the floor raises the mark, for any sequence of claims.
pub(crate) fn a_store_judges_as_the_rule_says(runtime: &Runtime, store: impl TestStore) {
    let store = RefCell::new(store);
    let outcome = runner(cases(), 500).run(&vec(claim(), 1..12), |claims| {
        let mut store = store.borrow_mut();
        runtime.block_on(store.forget());
        let resource = store.resource();
        let mut mark = None;
        for claim in claims {
            let judged = claim.judge(&resource, mark);
            let shown = runtime.block_on(store.show(claim));
            prop_assert_eq!(
                verdict(shown),
                verdict(judged.as_ref().copied().map_err(copy)),
                "{:?}",
                claim
            );
            mark = judged.ok().or(mark);
        }
        Ok(())
    });
    outcome.unwrap();
}

fn copy(error: &FenceError) -> FenceError {
    let FenceError::Stale { resource, token, newest, .. } = error else { panic!("{error}") };
    FenceError::Stale { resource: resource.clone(), token: *token, newest: *newest, holder: None }
}

/// Claims that no grant has are rejected before they reach the store.
pub(crate) fn invalid_claims_are_rejected(runtime: &Runtime, store: &mut impl TestStore) {
    let number = FencingToken;
    for claim in [
        Claim::exclusive(number(0)),
        Claim::exclusive(number(FencingToken::END)),
        Claim::shared(number(5), number(6)),
    ] {
        let shown = runtime.block_on(store.show(claim));
        assert!(matches!(shown, Err(FenceError::MissingToken { .. })), "{claim:?}: {shown:?}");
    }
}
