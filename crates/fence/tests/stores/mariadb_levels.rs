//! The guard of MySQL and MariaDB at all sixteen pairs of isolation levels, on a real MariaDB.

use std::cell::Cell;
use std::time::Duration;

use holdfast_fence::mysql::advance;
use holdfast_fence::{Claim, FenceError, FencingToken};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, IsolationLevel, Transaction, TxOpts};

use crate::levels::{First, Holder, cases, play};
use crate::mariadb::{MariaStore, RESOURCE, connection, read, write};
use crate::pausing::{STOCK, StockStore};
use crate::search::runtime;
use crate::servers::mariadb_or_skip;

const LEVELS: [IsolationLevel; 4] = [
    IsolationLevel::ReadUncommitted,
    IsolationLevel::ReadCommitted,
    IsolationLevel::RepeatableRead,
    IsolationLevel::Serializable,
];
const DEADLINE: Duration = Duration::from_mins(1);

struct MariaHolder {
    connection: Conn,
    level: IsolationLevel,
}

impl MariaHolder {
    async fn start(&mut self) -> Transaction<'_> {
        let mut options = TxOpts::default();
        options.with_isolation_level(self.level);
        self.connection.start_transaction(options).await.unwrap()
    }
}

impl Holder for MariaHolder {
    async fn read(
        &mut self,
        claim: Claim,
        early: Option<impl AsyncFnOnce()>,
    ) -> Result<i64, FenceError> {
        let mut transaction = self.start().await;
        if let Some(early) = early {
            let other: Option<u64> =
                transaction.query_first("SELECT count(*) FROM notice").await.unwrap();
            assert_eq!(other, Some(0));
            early().await;
        }
        let read = async {
            advance(&mut transaction, RESOURCE, claim, None).await?;
            // The guard must not treat the second call of a transaction as one of another holder.
            advance(&mut transaction, RESOURCE, claim, None).await?;
            read(&mut transaction).await
        };
        let outcome = read.await;
        end(transaction, outcome).await
    }

    async fn write(&mut self, claim: Claim, stock: i64) -> Result<(), FenceError> {
        let mut transaction = self.start().await;
        let outcome = sell(&mut transaction, claim, stock).await;
        end(transaction, outcome).await
    }
}

async fn sell(
    transaction: &mut Transaction<'_>,
    claim: Claim,
    stock: i64,
) -> Result<(), FenceError> {
    advance(transaction, RESOURCE, claim, None).await?;
    write(transaction, claim.token(), stock).await
}

async fn end<T>(
    transaction: Transaction<'_>,
    outcome: Result<T, FenceError>,
) -> Result<T, FenceError> {
    match outcome {
        Ok(_) => transaction.commit().await?,
        Err(_) => transaction.rollback().await?,
    }
    outcome
}

async fn holder(store: &mut MariaStore) -> MariaHolder {
    let connection = connection(&mut store.server).await;
    MariaHolder { connection, level: IsolationLevel::ReadCommitted }
}

async fn reset(store: &mut MariaStore) {
    store.reset().await;
    let mark = "INSERT INTO fence (resource, token) VALUES (?, 60)";
    store.observer.exec_drop(mark, (RESOURCE,)).await.unwrap();
}

async fn books_are_exact(store: &mut MariaStore, what: &str) {
    let (stock, sales) = store.count().await;
    let sold = i64::try_from(sales.len()).unwrap();
    assert_eq!(stock + sold, STOCK, "a write of the predecessor was lost: {what}");
}

/// The successor's transaction reads before the guard, and then the predecessor writes. From REPEATABLE READ on, that
/// read fixes the snapshot, and the guard rejects it.
#[test]
fn at_all_pairs_of_levels_a_snapshot_from_before_the_predecessors_write_is_rejected_in_mariadb() {
    let Some(server) = mariadb_or_skip() else { return };
    runtime().block_on(async {
        let mut store = MariaStore::open(server).await;
        store.observer.query_drop("CREATE TABLE notice (n bigint) ENGINE = InnoDB").await.unwrap();
        let (mut predecessor, mut successor) = (holder(&mut store).await, holder(&mut store).await);
        for (before, after) in pairs() {
            (predecessor.level, successor.level) = (before, after);
            for case in cases() {
                reset(&mut store).await;
                let first = play(&mut predecessor, &mut successor, case).await;
                let what = format!("{before:?}, then {after:?}: {case:?}");
                books_are_exact(&mut store, &what).await;
                let fixed = |level| case.early && after == level;
                let expected: &[First] = if fixed(IsolationLevel::RepeatableRead) {
                    &[First::RanAgain]
                } else if fixed(IsolationLevel::Serializable) {
                    // A server with `innodb_snapshot_isolation` also rejects an old snapshot here.
                    &[First::Read, First::RanAgain]
                } else {
                    &[First::Read]
                };
                assert!(expected.contains(&first), "{first:?}: {what}");
            }
        }
    });
}

/// The successor waits in the guard for the transaction in which the predecessor writes. The mark already has the
/// predecessor's value.
#[test]
fn at_all_pairs_of_levels_a_successor_that_waited_reads_the_predecessors_write_in_mariadb() {
    let Some(server) = mariadb_or_skip() else { return };
    runtime().block_on(async {
        let mut store = MariaStore::open(server).await;
        let (mut predecessor, mut successor) = (holder(&mut store).await, holder(&mut store).await);
        let set_timeout = "SET innodb_lock_wait_timeout = 60";
        successor.connection.query_drop(set_timeout).await.unwrap();
        let shared = |token, floor| Claim::shared(FencingToken(token), FencingToken(floor));
        for (before, after) in pairs() {
            (predecessor.level, successor.level) = (before, after);
            for claims in [
                [Claim::exclusive(FencingToken(70)), Claim::exclusive(FencingToken(80))],
                [shared(71, 70), shared(81, 80)],
            ] {
                reset(&mut store).await;
                let waiting = successor_waits(&mut store, &mut predecessor, &mut successor, claims);
                let stock = tokio::time::timeout(DEADLINE, waiting).await.unwrap();
                successor.write(claims[1], stock - 1).await.unwrap();
                let what = format!("{before:?}, then {after:?}: {claims:?}");
                books_are_exact(&mut store, &what).await;
            }
        }
    });
}

fn pairs() -> impl Iterator<Item = (IsolationLevel, IsolationLevel)> {
    LEVELS.into_iter().flat_map(|before| LEVELS.map(|after| (before, after)))
}

/// Returns the successor's read.
async fn successor_waits(
    store: &mut MariaStore,
    predecessor: &mut MariaHolder,
    successor: &mut MariaHolder,
    claims: [Claim; 2],
) -> i64 {
    let stock = predecessor.read(claims[0], None::<fn() -> std::future::Ready<()>>).await.unwrap();
    let mut writing = predecessor.start().await;
    sell(&mut writing, claims[0], stock - 1).await.unwrap();
    let has_ended = Cell::new(false);
    let reading = async {
        let nothing = || None::<fn() -> std::future::Ready<()>>;
        let mut read = successor.read(claims[1], nothing()).await;
        has_ended.set(true);
        // A server with `innodb_snapshot_isolation` may return a conflict after the wait.
        if matches!(read, Err(FenceError::Conflict { .. })) {
            read = successor.read(claims[1], nothing()).await;
        }
        read.unwrap()
    };
    let committing = async {
        let waits = "SELECT variable_value FROM information_schema.global_status \
            WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS'";
        loop {
            let count: Option<u64> = store.observer.query_first(waits).await.unwrap();
            assert!(!has_ended.get(), "the successor did not wait for the predecessor");
            if count > Some(0) {
                break;
            }
        }
        writing.commit().await.unwrap();
    };
    tokio::join!(reading, committing).0
}
