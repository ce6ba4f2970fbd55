//! Interleavings of paused holders on a real PostgreSQL. With the guard, accepted tokens never decrease and no update
//! is lost. Without the guard, or without rule 3, the same search finds a lost update.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "test code throughout")]

mod scratch;
mod skip;
mod writers;

use std::cell::Cell;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use scratch::Postgres;
use skip::postgres_or_skip;
use tokio::runtime::Runtime;
use tokio::sync::Mutex;
use writers::{Arena, Case, Guard, STOCK, SaleResult, Turn, WRITERS_MAX};

/// The number of interleavings with the guard; `PROPTEST_CASES` overrides it.
const CASES: u32 = 96;
/// The number of interleavings within which the search must find a lost update without the guard.
const CASES_TO_FAIL: u32 = 64;
const SEED: [u8; 32] = *b"a paused holder wakes much later";

fn turn() -> impl Strategy<Value = Turn> {
    (any::<bool>(), any::<bool>()).prop_map(|(split, again)| Turn { split, again })
}

fn case() -> impl Strategy<Value = Case> {
    let writers = vec(vec(turn(), 1..=2), 2..=WRITERS_MAX);
    let schedule = vec(0..WRITERS_MAX, 0..60);
    (writers, schedule).prop_map(|(writers, schedule)| Case { writers, schedule })
}

fn runner(cases: u32, shrink: u32) -> TestRunner {
    let config =
        Config { cases, max_shrink_iters: shrink, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &SEED))
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES)
}

/// Stock and orders add up: no sale was lost or counted twice.
fn books_are_exact(books: &SaleResult) -> Result<(), TestCaseError> {
    prop_assert_eq!(books.sum(), STOCK, "{:?}", books);
    Ok(())
}

fn tokens_never_decrease(books: &SaleResult) -> Result<(), TestCaseError> {
    prop_assert!(books.accepted.is_sorted(), "accepted: {:?}", books.accepted);
    prop_assert!(books.orders.is_sorted(), "orders: {:?}", books.orders);
    Ok(())
}

struct TestDatabase {
    runtime: Runtime,
    arena: Mutex<Arena>,
    _postgres: Postgres,
}

impl TestDatabase {
    fn open(guard: Guard) -> Option<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let postgres = runtime.block_on(postgres_or_skip())?;
        let arena = Mutex::new(runtime.block_on(Arena::new(&postgres, guard)));
        Some(Self { runtime, arena, _postgres: postgres })
    }

    fn play(&self, case: &Case) -> SaleResult {
        self.runtime.block_on(async { self.arena.lock().await.play(case).await })
    }

    /// Returns the smallest interleaving that `judge` rejects, or `None`.
    fn search(&self, judge: impl Fn(&SaleResult) -> Result<(), TestCaseError>) -> Option<Case> {
        match runner(CASES_TO_FAIL, 200).run(&case(), |case| judge(&self.play(&case))) {
            Ok(()) => None,
            Err(TestError::Fail(_, smallest)) => Some(smallest),
            Err(TestError::Abort(why)) => panic!("{why}"),
        }
    }
}

/// Guarantee 2 in a store: "a holder that was paused can never overwrite its successor".
#[test]
fn with_the_guard_no_interleaving_loses_an_update() {
    let Some(laboratory) = TestDatabase::open(Guard::Everything) else { return };
    let (sold, rejected, blocked) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let outcome = runner(cases(), 500).run(&case(), |case| {
        let books = laboratory.play(&case);
        sold.set(sold.get() + books.orders.len());
        rejected.set(rejected.get() + books.refused.len());
        blocked.set(blocked.get() + books.blocked);
        tokens_never_decrease(&books)?;
        books_are_exact(&books)
    });
    let (sold, rejected, blocked) = (sold.get(), rejected.get(), blocked.get());
    eprintln!("{sold} sales, {rejected} stale tokens rejected, {blocked} waits");
    outcome.unwrap();
    assert!(sold > 0 && rejected > 0 && blocked > 0, "the search did not cover all outcomes");
}

/// Control: without a fence the same search finds a lost update.
#[test]
fn without_the_fence_a_lost_update_is_found() {
    let Some(laboratory) = TestDatabase::open(Guard::None) else { return };
    let smallest =
        laboratory.search(books_are_exact).expect("no lost update in all those interleavings");
    eprintln!("smallest: {smallest:?}");
}

/// Control for rule 3: if every write is fenced, but the stock is read before the mark is raised, updates are lost
/// although the tokens never decrease.
#[test]
fn reading_before_raising_the_mark_loses_updates() {
    let Some(laboratory) = TestDatabase::open(Guard::OnlyTheWrite) else { return };
    let smallest =
        laboratory.search(books_are_exact).expect("no lost update in all those interleavings");
    eprintln!("smallest: {smallest:?}");
    assert_eq!(laboratory.search(tokens_never_decrease).map(|case| case.schedule), None);
}

fn one_turn_each() -> Vec<Vec<Turn>> {
    vec![vec![Turn { split: true, again: false }]; 2]
}

/// Holder 1 reads and is paused, holder 2 sells, holder 1 resumes and writes.
#[test]
fn a_fixed_schedule_with_a_paused_holder() {
    let case =
        Case { writers: one_turn_each(), schedule: vec![0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0] };
    let Some(laboratory) = TestDatabase::open(Guard::Everything) else { return };
    let books = laboratory.play(&case);
    assert_eq!((books.stock, books.orders.as_slice()), (99, [2].as_slice()), "{books:?}");
    assert_eq!(books.refused, [1]);

    let case = Case { writers: one_turn_each(), schedule: vec![0, 0, 1, 1, 1, 1, 0, 0] };
    let Some(laboratory) = TestDatabase::open(Guard::None) else { return };
    let books = laboratory.play(&case);
    assert_eq!((books.stock, books.orders.as_slice()), (99, [2, 1].as_slice()), "{books:?}");
    assert_eq!(books.sum(), STOCK + 1, "one piece was sold twice");
}

/// Holder 2 reads 100, holder 1 writes 99 with its older token, holder 2 writes 99: one sale is lost.
#[test]
fn a_fixed_schedule_with_a_read_before_the_mark_rises() {
    let schedule = vec![0, 1, 0, 1, 0, 0, 0, 1, 1, 1];
    let case = Case { writers: one_turn_each(), schedule };
    let Some(laboratory) = TestDatabase::open(Guard::OnlyTheWrite) else { return };
    let books = laboratory.play(&case);
    assert_eq!((books.stock, books.orders.as_slice()), (99, [1, 2].as_slice()), "{books:?}");
    assert_eq!((books.accepted.as_slice(), books.refused.len()), ([1, 2].as_slice(), 0));
    assert_eq!(books.sum(), STOCK + 1, "one update is lost although every write was fenced");
}
