//! The nine pairs of isolation levels of a predecessor and its successor, on a real PostgreSQL.
//!
//! Both holders read in one transaction and write in a later one with the same token. A pair is protected if the
//! successor's read returns every write that the predecessor's token committed. Each pair is played with exclusive and
//! shared claims, and with the predecessor's write in the first or a later transaction of its claim. The successor
//! takes its snapshot before the predecessor's commit, in two ways.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "test code throughout")]

mod scratch;
mod skip;

use std::cell::Cell;
use std::fmt::Write as _;
use std::time::Duration;

use holdfast_fence::postgres::advance;
use holdfast_fence::{Claim, FenceError, FencingToken, schema_sql};
use scratch::Postgres;
use skip::postgres_or_skip;
use tokio_postgres::{Client, IsolationLevel, Transaction};

const GUIDE: &str = include_str!("../../../docs/fencing/postgresql.md");
const STOCK: i64 = 100;
const TABLES: &str = "CREATE TABLE good (id bigint PRIMARY KEY, stock bigint NOT NULL, fence bigint NOT NULL DEFAULT 0);
    CREATE TABLE sale (token bigint NOT NULL);";
const LEVELS: [(&str, IsolationLevel); 3] = [
    ("READ COMMITTED", IsolationLevel::ReadCommitted),
    ("REPEATABLE READ", IsolationLevel::RepeatableRead),
    ("SERIALIZABLE", IsolationLevel::Serializable),
];
/// The maximum number of runs of a transaction with conflicts.
const RUNS_MAX: usize = 3;
const DEADLINE: Duration = Duration::from_mins(1);

/// The moment of the successor's snapshot. Both are before the predecessor's commit.
#[derive(Clone, Copy, Debug)]
enum Snapshot {
    /// By the guard's own statement, which then waits for the predecessor's transaction.
    WhileItWaits,
    /// By a statement before the guard, which reads no table.
    BeforeTheGuard,
}

/// Which guard the holders use.
#[derive(Clone, Copy, Debug)]
enum Guard {
    /// `fence_check` in an exclusive or shared form, by predecessor and successor.
    Mark(Claim, Claim),
    /// The row has its own mark.
    Row,
}

/// One case of a pair of levels.
#[derive(Clone, Copy, Debug)]
struct Case {
    guard: Guard,
    /// The predecessor has committed a transaction with this claim before: the mark has the claim's value.
    later: bool,
    snapshot: Snapshot,
}

fn cases(guards: &[Guard]) -> Vec<Case> {
    let mut cases = Vec::new();
    for &guard in guards {
        for later in [false, true] {
            for snapshot in [Snapshot::WhileItWaits, Snapshot::BeforeTheGuard] {
                cases.push(Case { guard, later, snapshot });
            }
        }
    }
    cases
}

/// Predecessor and successor, each exclusive or shared.
fn marks() -> [Guard; 4] {
    let shared = |token, floor| Claim::shared(FencingToken(token), FencingToken(floor));
    let exclusive = |token| Claim::exclusive(FencingToken(token));
    [
        Guard::Mark(exclusive(70), exclusive(80)),
        Guard::Mark(exclusive(70), shared(81, 80)),
        Guard::Mark(shared(71, 70), exclusive(80)),
        Guard::Mark(shared(71, 70), shared(81, 80)),
    ]
}

/// The outcome of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CaseOutcome {
    /// The successor's read returned every committed write of the predecessor.
    Protected,
    /// The same, after PostgreSQL aborted a transaction with 40001 and the holder ran it again.
    ProtectedAfterConflict,
    /// The guard rejected the level of the predecessor or of the successor.
    Refused,
    /// The successor did not read a committed write, and overwrote it.
    Lost(String),
}

impl CaseOutcome {
    fn word(&self) -> &'static str {
        match self {
            Self::Protected => "protected",
            Self::ProtectedAfterConflict => "protected: `40001`, then run again",
            Self::Refused => "refused: `FN003`",
            Self::Lost(_) => "LOST",
        }
    }
}

/// What a holder passes to its guard.
#[derive(Clone, Copy, Debug)]
enum GuardArgument {
    /// For the table of marks.
    Claim(Claim),
    /// For the mark in the row.
    Token(i64),
}

impl GuardArgument {
    fn token(self) -> i64 {
        match self {
            Self::Claim(claim) => claim.token().0.cast_signed(),
            Self::Token(token) => token,
        }
    }

    /// The guard, and then the read.
    async fn read(self, transaction: &Transaction<'_>) -> Result<i64, FenceError> {
        match self {
            Self::Claim(claim) => {
                advance(transaction, "orders", claim, None).await?;
                Ok(transaction.query_one("SELECT stock FROM good", &[]).await?.get(0))
            }
            Self::Token(token) => {
                let claim = "UPDATE good SET fence = $1 WHERE fence <= $1 RETURNING stock";
                let row = transaction.query_opt(claim, &[&token]).await?;
                row.map(|row| row.get(0)).ok_or_else(|| self.stale())
            }
        }
    }

    /// The guard, and then the write of a sale.
    async fn write(self, transaction: &Transaction<'_>, stock: i64) -> Result<(), FenceError> {
        match self {
            Self::Claim(claim) => {
                advance(transaction, "orders", claim, None).await?;
                transaction.execute("UPDATE good SET stock = $1", &[&stock]).await?;
            }
            Self::Token(token) => {
                let write = "UPDATE good SET stock = $1, fence = $2 WHERE fence <= $2";
                if transaction.execute(write, &[&stock, &token]).await? == 0 {
                    return Err(self.stale());
                }
            }
        }
        transaction.execute("INSERT INTO sale VALUES ($1)", &[&self.token()]).await?;
        Ok(())
    }

    /// The error of a statement that matches no row.
    fn stale(self) -> FenceError {
        let token = FencingToken(self.token().cast_unsigned());
        FenceError::Stale {
            resource: "orders".into(),
            token,
            newest: FencingToken(80),
            holder: None,
        }
    }
}

/// One holder: its connection, its isolation level, and its claim or token.
struct Holder {
    client: Client,
    level: IsolationLevel,
    shown: GuardArgument,
    conflicts: usize,
}

impl Holder {
    async fn start(&mut self) -> Transaction<'_> {
        self.client.build_transaction().isolation_level(self.level).start().await.unwrap()
    }

    /// Runs a whole transaction, and repeats it after a conflict.
    async fn transact<T>(
        &mut self,
        work: impl AsyncFn(&Transaction<'_>) -> Result<T, FenceError>,
    ) -> Result<T, FenceError> {
        for _ in 0..RUNS_MAX {
            let transaction = self.start().await;
            let outcome = work(&transaction).await;
            match commit(transaction, outcome).await {
                Err(FenceError::Conflict { .. }) => self.conflicts += 1,
                end => return end,
            }
        }
        panic!("{RUNS_MAX} conflicts without a concurrent transaction");
    }

    async fn read(&mut self) -> Result<i64, FenceError> {
        let shown = self.shown;
        self.transact(async |transaction| shown.read(transaction).await).await
    }

    async fn write(&mut self, stock: i64) -> Result<(), FenceError> {
        let shown = self.shown;
        self.transact(async |transaction| shown.write(transaction, stock).await).await
    }
}

async fn commit<T>(
    transaction: Transaction<'_>,
    outcome: Result<T, FenceError>,
) -> Result<T, FenceError> {
    let value = outcome?;
    transaction.commit().await?;
    Ok(value)
}

/// The database, its observer, and the two holders of a case.
struct StockStore {
    observer: Client,
    predecessor: Holder,
    successor: Holder,
}

impl StockStore {
    async fn open(postgres: &Postgres) -> Self {
        let observer = postgres.connect("observer").await.unwrap();
        observer.batch_execute(schema_sql()).await.unwrap();
        observer.batch_execute(TABLES).await.unwrap();
        let holder = async |name| Holder {
            client: postgres.connect(name).await.unwrap(),
            level: IsolationLevel::ReadCommitted,
            shown: GuardArgument::Token(0),
            conflicts: 0,
        };
        let (predecessor, successor) = (holder("predecessor").await, holder("successor").await);
        Self { observer, predecessor, successor }
    }

    async fn reset(&mut self, case: Case, levels: [IsolationLevel; 2]) {
        let reset = format!(
            "TRUNCATE good, sale, fence; INSERT INTO good VALUES (1, {STOCK});
             INSERT INTO fence VALUES ('orders', 60)"
        );
        self.observer.batch_execute(&reset).await.unwrap();
        let shown = match case.guard {
            Guard::Mark(before, after) => {
                [GuardArgument::Claim(before), GuardArgument::Claim(after)]
            }
            Guard::Row => [GuardArgument::Token(70), GuardArgument::Token(80)],
        };
        let holders = [&mut self.predecessor, &mut self.successor];
        for ((holder, level), shown) in holders.into_iter().zip(levels).zip(shown) {
            (holder.level, holder.shown, holder.conflicts) = (level, shown, 0);
        }
    }

    async fn play(&mut self, case: Case, levels: [IsolationLevel; 2]) -> CaseOutcome {
        self.reset(case, levels).await;
        match self.sell_one_after_the_other(case).await {
            Ok(()) => {}
            Err(FenceError::UnsafeSnapshot { .. }) => return CaseOutcome::Refused,
            Err(other) => panic!("{case:?} {levels:?}: {other}"),
        }
        let count = "SELECT stock, (SELECT count(*) FROM sale) FROM good";
        let row = self.observer.query_one(count, &[]).await.unwrap();
        let (stock, sales): (i64, i64) = (row.get(0), row.get(1));
        if stock + sales != STOCK {
            return CaseOutcome::Lost(format!("{sales} sales took {} of the stock", STOCK - stock));
        }
        match self.predecessor.conflicts + self.successor.conflicts {
            0 => CaseOutcome::Protected,
            _ => CaseOutcome::ProtectedAfterConflict,
        }
    }

    /// The predecessor sells, the successor sells, and the predecessor's next write is rejected.
    async fn sell_one_after_the_other(&mut self, case: Case) -> Result<(), FenceError> {
        let stock = if case.later { self.predecessor.read().await? } else { STOCK };
        let read = match case.snapshot {
            Snapshot::WhileItWaits => self.successor_waits(stock - 1).await?,
            Snapshot::BeforeTheGuard => self.successor_is_early(stock - 1).await?,
        };
        self.successor.write(read - 1).await?;
        let rejection = self.predecessor.write(0).await.unwrap_err();
        assert!(matches!(rejection, FenceError::Stale { .. }), "{rejection}");
        Ok(())
    }

    /// The successor's guard waits for the transaction in which the predecessor writes. Returns the successor's read.
    async fn successor_waits(&mut self, stock: i64) -> Result<i64, FenceError> {
        let Self { observer, predecessor, successor } = self;
        let shown = predecessor.shown;
        let writing = predecessor.start().await;
        shown.write(&writing, stock).await?;
        // A rejected successor does not wait.
        let has_ended = Cell::new(false);
        let reading = async {
            let read = successor.read().await;
            has_ended.set(true);
            read
        };
        let committing = async {
            while !has_ended.get() && !is_blocked(observer, "successor").await {}
            writing.commit().await.unwrap();
        };
        let both = async { tokio::join!(reading, committing) };
        tokio::time::timeout(DEADLINE, both).await.unwrap().0
    }

    /// The successor takes its snapshot, then the predecessor writes and commits. Returns the successor's read.
    async fn successor_is_early(&mut self, stock: i64) -> Result<i64, FenceError> {
        let shown = self.successor.shown;
        let reading = self.successor.start().await;
        reading.batch_execute("SELECT 1").await?;
        self.predecessor.write(stock).await?;
        let read = shown.read(&reading).await;
        match commit(reading, read).await {
            Err(FenceError::Conflict { .. }) => {
                self.successor.conflicts += 1;
                self.successor.read().await
            }
            end => end,
        }
    }
}

async fn is_blocked(observer: &Client, name: &str) -> bool {
    let query = "SELECT 1 FROM pg_stat_activity \
        WHERE application_name = $1 AND cardinality(pg_blocking_pids(pid)) > 0";
    observer.query_opt(query, &[&name]).await.unwrap().is_some()
}

/// Plays every case of a pair. Returns the distinct outcomes, and a line for each lost write.
async fn outcomes(
    store: &mut StockStore,
    guards: &[Guard],
    levels: [usize; 2],
) -> (String, String) {
    let [before, after] = levels.map(|level| LEVELS[level]);
    let (mut words, mut lost) = (Vec::new(), String::new());
    for case in cases(guards) {
        let end = store.play(case, [before.1, after.1]).await;
        if let CaseOutcome::Lost(what) = &end {
            writeln!(lost, "{}, then {}: {what} in {case:?}", before.0, after.0).unwrap();
        }
        if !words.contains(&end.word()) {
            words.push(end.word());
        }
    }
    (words.join(", "), lost)
}

/// Rule 3 at every level: the successor reads all writes that the predecessor's token committed, or the guard rejects
/// the transaction. The outcomes must be the table in `docs/fencing/postgresql.md`.
#[tokio::test]
async fn at_all_nine_pairs_of_levels_a_successor_reads_its_predecessors_writes_or_is_rejected() {
    let Some(postgres) = postgres_or_skip().await else { return };
    let mut store = StockStore::open(&postgres).await;
    let (mut table, mut lost) = (String::new(), String::new());
    for before in 0..LEVELS.len() {
        for after in 0..LEVELS.len() {
            let (mark, lost_by_mark) = outcomes(&mut store, &marks(), [before, after]).await;
            let (row, lost_by_row) = outcomes(&mut store, &[Guard::Row], [before, after]).await;
            let names = [before, after].map(|level| LEVELS[level].0).join(" | ");
            writeln!(table, "| {names} | {mark} | {row} |").unwrap();
            lost.extend([lost_by_mark, lost_by_row]);
        }
    }
    eprintln!("{table}");
    assert!(lost.is_empty(), "writes of the predecessor were lost:\n{lost}");
    assert!(GUIDE.contains(&table), "docs/fencing/postgresql.md has another table:\n{table}");
}
