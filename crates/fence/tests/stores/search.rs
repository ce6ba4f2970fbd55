//! Searches for an interleaving that loses an update: with the guard there is none, with a part of it there is one.

use std::cell::RefCell;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use tokio::runtime::Runtime;

use crate::pausing::{Case, Guard, STOCK, SaleResult, StockStore, Turn, WRITERS_MAX, play};

/// The number of interleavings with the guard; `PROPTEST_CASES` overrides it.
const CASES: u32 = 96;
/// The number of interleavings within which the search must find a lost update without the guard.
const CASES_TO_FAIL: u32 = 64;
const SEED: [u8; 32] = *b"a paused holder wakes much later";

fn turn() -> impl Strategy<Value = Turn> {
    (any::<bool>(), any::<bool>()).prop_map(|(in_one, again)| Turn { in_one, again })
}

fn case() -> impl Strategy<Value = Case> {
    let writers = vec(vec(turn(), 1..=2), 2..=WRITERS_MAX);
    let schedule = vec(0..WRITERS_MAX, 0..60);
    (writers, schedule).prop_map(|(writers, schedule)| Case { writers, schedule })
}

/// A runner with a fixed seed.
pub(crate) fn runner(cases: u32, shrink: u32) -> TestRunner {
    let config =
        Config { cases, max_shrink_iters: shrink, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &SEED))
}

/// The number of cases of a search with the guard.
pub(crate) fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES)
}

/// A runtime on this thread, for stores and their clients.
pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Stock and orders add up: no sale was lost or counted twice.
fn books_are_exact(books: &SaleResult) -> Result<(), TestCaseError> {
    let sold = i64::try_from(books.orders.len()).unwrap();
    prop_assert_eq!(books.stock + sold, STOCK, "{:?}", books);
    Ok(())
}

/// Guarantee 2 in a store: "a holder that was paused can never overwrite its successor".
pub(crate) fn no_interleaving_loses_an_update(runtime: &Runtime, store: impl StockStore) {
    let store = RefCell::new(store);
    let seen = RefCell::new(SaleResult::default());
    let outcome = runner(cases(), 500).run(&case(), |case| {
        let books = runtime.block_on(play(&mut *store.borrow_mut(), Guard::Everything, &case));
        let mut seen = seen.borrow_mut();
        seen.orders.extend(&books.orders);
        seen.refused.extend(&books.refused);
        seen.conflicts += books.conflicts;
        prop_assert!(books.orders.is_sorted(), "orders: {:?}", books.orders);
        books_are_exact(&books)
    });
    let seen = seen.into_inner();
    let (sold, rejected) = (seen.orders.len(), seen.refused.len());
    eprintln!("{sold} sales, {rejected} stale tokens rejected, {} conflicts", seen.conflicts);
    outcome.unwrap();
    assert!(sold > 0 && rejected > 0, "the search had no sales or no rejections");
}

/// Control: with a part of the guard, or without it, the same search finds a lost update.
pub(crate) fn half_a_guard_loses_updates(runtime: &Runtime, store: impl StockStore) {
    let store = RefCell::new(store);
    for guard in [Guard::None, Guard::OnlyTheWrite, Guard::CheckedBefore] {
        let run = runner(CASES_TO_FAIL, 60).run(&case(), |case| {
            books_are_exact(&runtime.block_on(play(&mut *store.borrow_mut(), guard, &case)))
        });
        match run {
            Err(TestError::Fail(_, smallest)) => eprintln!("{guard:?}: {smallest:?}"),
            Err(TestError::Abort(why)) => panic!("{why}"),
            Ok(()) => panic!("{guard:?}: no lost update in {CASES_TO_FAIL} interleavings"),
        }
    }
}
