//! Rule 3 at every isolation level that a store has: a successor's read sees what its predecessor's token has committed,
//! or the guard refuses.
//!
//! Both holders read in one transaction, think, and write in a second one with the same token. The successor may have
//! begun its transaction, and read in it, before the predecessor writes. This module plays the holders; the stores are
//! behind [`Holder`], and a store's levels are its own.

use holdfast_fence::{Claim, FenceError, FencingToken};

use crate::pausing::STOCK;

/// One holder's connection at one isolation level.
pub(crate) trait Holder {
    /// A whole transaction that reads the stock behind the guard. If `early` is given, the transaction first takes its
    /// snapshot by another read, and then runs `early`.
    async fn read(
        &mut self,
        claim: Claim,
        early: Option<impl AsyncFnOnce()>,
    ) -> Result<i64, FenceError>;
    /// A whole transaction that writes the stock and a sale behind the guard.
    async fn write(&mut self, claim: Claim, stock: i64) -> Result<(), FenceError>;
}

/// One case of a pair of levels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    predecessor: Claim,
    successor: Claim,
    /// The predecessor has committed a transaction with this claim before: the mark has the claim's value.
    later: bool,
    /// The successor's transaction takes its snapshot before the predecessor writes.
    pub(crate) early: bool,
}

/// Exclusive and shared claims, on a mark that was at 60.
pub(crate) fn cases() -> Vec<Case> {
    let shared = |token, floor| Claim::shared(FencingToken(token), FencingToken(floor));
    let exclusive = |token| Claim::exclusive(FencingToken(token));
    let mut cases = Vec::new();
    for predecessor in [exclusive(70), shared(71, 70)] {
        for successor in [exclusive(80), shared(81, 80)] {
            for (later, early) in [(false, false), (false, true), (true, false), (true, true)] {
                cases.push(Case { predecessor, successor, later, early });
            }
        }
    }
    cases
}

/// How the successor's first transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// It read.
    Read,
    /// The store or the guard refused it. It ran again without the early snapshot, and then it read.
    RanAgain,
}

/// The predecessor's sale, the successor's sale, and the predecessor once more. Nobody else is in the store.
pub(crate) async fn play(
    predecessor: &mut impl Holder,
    successor: &mut impl Holder,
    case: Case,
) -> First {
    let nothing = || None::<fn() -> std::future::Ready<()>>;
    let mut stock = STOCK;
    if case.later {
        stock = predecessor.read(case.predecessor, nothing()).await.unwrap();
    }
    let mut first = First::Read;
    let read = if case.early {
        let writing = async || match predecessor.write(case.predecessor, stock - 1).await {
            // The successor's early transaction keeps the predecessor out: then there is no write to be seen.
            Ok(()) | Err(FenceError::Conflict { .. }) => {}
            Err(other) => panic!("{case:?}: {other}"),
        };
        match successor.read(case.successor, Some(writing)).await {
            Err(FenceError::Conflict { .. } | FenceError::UnsafeSnapshot { .. }) => {
                first = First::RanAgain;
                successor.read(case.successor, nothing()).await
            }
            end => end,
        }
    } else {
        predecessor.write(case.predecessor, stock - 1).await.unwrap();
        successor.read(case.successor, nothing()).await
    };
    successor.write(case.successor, read.unwrap() - 1).await.unwrap();
    let refusal = predecessor.write(case.predecessor, 0).await.unwrap_err();
    assert!(matches!(refusal, FenceError::Stale { .. }), "{case:?}: {refusal}");
    first
}
