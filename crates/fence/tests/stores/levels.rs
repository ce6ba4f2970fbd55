//! Rule 3 at every isolation level of a store: a successor reads what its predecessor's token has committed, or the
//! guard rejects the transaction.
//!
//! Both holders read in one transaction and write in a later one with the same token. The successor may have begun its
//! transaction, and read in it, before the predecessor writes. The stores and their levels implement [`Holder`].

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
    /// The store or the guard rejected it. It ran again without the early snapshot, and read.
    RanAgain,
}

/// The predecessor sells, the successor sells, and the predecessor's next write is rejected. No other client writes.
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
            // The successor's early transaction blocks the predecessor, so there is no write to read.
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
    let rejection = predecessor.write(case.predecessor, 0).await.unwrap_err();
    assert!(matches!(rejection, FenceError::Stale { .. }), "{case:?}: {rejection}");
    first
}
