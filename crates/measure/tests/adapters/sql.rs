//! Locks in databases: they exclude, and they fail in their known ways; the same tests for each database.

use std::time::Duration;

use holdfast_measure::LockError;
use holdfast_measure::adapters::sql::{
    Database, ForUpdate, LockTable, NamedLock, OptimisticRow, RowWait, SqlConnection, create_tables,
};
use holdfast_measure::catalogue::{ALL, System};
use holdfast_measure::lock::{LockClient, LockSettings, ServerAddresses};
use holdfast_measure::servers::{Server, ServerKind, unsynced_mariadb, unsynced_postgres, url};
use tempfile::TempDir;

use crate::campaign::{SharedCounter, all_exclude};
use crate::skip::is_here;
use holdfast_lab::{DEADLINE, until};

const NOW: Duration = Duration::ZERO;

/// A database in a separate directory, with its tables.
struct Scratch {
    kind: ServerKind,
    database: Database,
    server: Server,
    url: String,
    _directory: TempDir,
}

impl Scratch {
    /// Starts the server; `None` if this machine lacks it.
    async fn start(database: Database) -> Option<Self> {
        let kind = match database {
            Database::Postgres => ServerKind::Postgres,
            Database::MariaDb => ServerKind::MariaDb,
        };
        if !is_here(kind) {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        open_to_all(&directory);
        let home = directory.path().join("server");
        let server = match database {
            Database::Postgres => unsynced_postgres(&home).await.unwrap(),
            Database::MariaDb => unsynced_mariadb(&home).await.unwrap(),
        };
        let url = url(kind, server.address());
        create_tables(database, &url).await.unwrap();
        Some(Self { kind, database, server, url, _directory: directory })
    }

    async fn connection(&self) -> SqlConnection {
        SqlConnection::open(self.database, &self.url).await.unwrap()
    }

    async fn for_update(&self, wait: RowWait) -> ForUpdate {
        ForUpdate::new(self.connection().await, wait, LockSettings::default())
    }

    async fn table(&self, ttl: Duration) -> LockTable {
        LockTable::new(self.connection().await, LockSettings::new(ttl))
    }

    async fn end_connection(&self, connection: i64) {
        let statement = match self.database {
            Database::Postgres => format!("SELECT pg_terminate_backend({connection})"),
            Database::MariaDb => format!("KILL {connection}"),
        };
        self.connection().await.execute(&statement).await.unwrap();
    }
}

/// Opens the directory to other users: the server may run as another user.
fn open_to_all(directory: &TempDir) {
    use std::os::unix::fs::PermissionsExt;
    let all = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(directory.path(), all).unwrap();
}

async fn every_lock_excludes(scratch: &Scratch) {
    let all: Vec<&System> = ALL.iter().filter(|system| system.kind == scratch.kind).collect();
    assert_eq!(all.len(), 5);
    let addresses = ServerAddresses::of(vec![scratch.server.address()]);
    all_exclude(all, &addresses).await;
}

async fn optimistic_writers_lose_nothing_and_retry(scratch: &Scratch) {
    let row = async || OptimisticRow::open(scratch.connection().await, "stock").await.unwrap();
    let mut first = row().await;
    let (mut written, mut retries) = (0, 0);
    // Whether two writers conflict is up to the scheduler, so they write until they do.
    while retries == 0 {
        let mut workers = Vec::new();
        for _ in 0..5 {
            let mut writer = row().await;
            workers.push(tokio::spawn(async move {
                let mut retries = 0;
                for _ in 0..12 {
                    retries += writer.add(1).await.unwrap();
                }
                retries
            }));
        }
        for worker in workers {
            retries += worker.await.unwrap();
        }
        written += 60;
        assert_eq!(first.read().await.unwrap().value, written);
    }

    // A slow writer always repeats.
    let (mut slow, read) = (row().await, first.read().await.unwrap());
    assert_eq!(first.add(1).await, Ok(0));
    assert_eq!(slow.write_if_version(read, read.value + 1).await, Ok(false));
}

async fn a_value_that_changed_back_goes_unnoticed_and_a_version_does_not(scratch: &Scratch) {
    let row = async || OptimisticRow::open(scratch.connection().await, "aba").await.unwrap();
    let (mut slow, mut quick) = (row().await, row().await);
    let read = slow.read().await.unwrap();
    quick.add(5).await.unwrap();
    quick.add(-5).await.unwrap();
    assert_eq!(slow.write_if_version(read, 1).await, Ok(false), "the version has changed twice");
    assert_eq!(slow.write_if_value(read, 1).await, Ok(true), "the value is the same");
}

async fn a_waiter_is_rejected_skips_or_waits_as_configured(scratch: &Scratch) {
    let mut holder = scratch.for_update(RowWait::Queue).await;
    let hold = holder.acquire("row", NOW).await.unwrap();
    for wait in [RowWait::Queue, RowWait::NoWait, RowWait::Skip] {
        let mut waiter = scratch.for_update(wait).await;
        assert_eq!(waiter.acquire("row", NOW).await, Err(LockError::Busy), "{wait:?}");
        let short = Duration::from_millis(100);
        assert_eq!(waiter.acquire("row", short).await, Err(LockError::Busy), "{wait:?}");
        // The server may end a wait slightly before the client's clock; then the client attempts once more.
        let polls = waiter.usage().polls;
        assert!(if wait == RowWait::Queue { polls < 2 } else { polls > 0 }, "{wait:?}: {polls}");
    }
    let mut waiter = scratch.for_update(RowWait::Queue).await;
    let waits = tokio::spawn(async move { waiter.acquire("row", DEADLINE).await });
    holder.release(hold).await.unwrap();
    assert!(waits.await.unwrap().is_ok());
}

async fn a_held_row_occupies_a_transaction(scratch: &Scratch) {
    let mut holder = scratch.for_update(RowWait::Queue).await;
    let hold = holder.acquire("tied", NOW).await.unwrap();
    let connection = holder.connection().number().await.unwrap();
    let open = match scratch.database {
        Database::Postgres => {
            "SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND state = 'idle in transaction'"
        }
        Database::MariaDb => {
            "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = ?"
        }
    };
    let mut observer = scratch.connection().await;
    until("the transaction to show", DEADLINE, async || {
        observer.query(open, vec![connection.into()]).await.unwrap().first() == Some(1)
    })
    .await;
    holder.release(hold).await.unwrap();
}

async fn the_end_of_a_connection_releases_the_lock_while_the_holder_continues(scratch: &Scratch) {
    let mut row = scratch.for_update(RowWait::Queue).await;
    let row_hold = row.acquire("lost", NOW).await.unwrap();
    let connection = row.connection().number().await.unwrap();
    scratch.end_connection(connection).await;
    let next = scratch.for_update(RowWait::Queue).await.acquire("lost", DEADLINE).await.unwrap();
    assert!(row_hold.is_presumed_held() && next.is_presumed_held(), "two holders at once");
    assert_eq!((row_hold.token, next.token), (None, None));
    assert!(
        row.release(row_hold).await.is_err(),
        "the holder detects the loss only at its next call"
    );

    let mut named = NamedLock::new(scratch.connection().await);
    let named_hold = named.acquire("lost", NOW).await.unwrap();
    let connection = named.connection().number().await.unwrap();
    scratch.end_connection(connection).await;
    let mut next = NamedLock::new(scratch.connection().await);
    let next_hold = next.acquire("lost", DEADLINE).await.unwrap();
    assert!(named_hold.is_presumed_held() && next_hold.is_presumed_held(), "two holders at once");
    assert!(named.release(named_hold).await.is_err());
    next.release(next_hold).await.unwrap();
}

async fn named_locks_wait_and_belong_to_their_connection(scratch: &Scratch) {
    let mut holder = NamedLock::new(scratch.connection().await);
    let hold = holder.acquire("named", NOW).await.unwrap();
    let mut other = NamedLock::new(scratch.connection().await);
    assert_eq!(other.acquire("named", NOW).await, Err(LockError::Busy));
    assert_eq!(other.acquire("named", Duration::from_millis(50)).await, Err(LockError::Busy));
    assert!(matches!(other.release(hold.clone()).await, Err(LockError::Lost(_))));
    let waits = tokio::spawn(async move { other.acquire("named", DEADLINE).await });
    holder.release(hold).await.unwrap();
    assert!(waits.await.unwrap().is_ok());
}

async fn two_names_are_one_lock(scratch: &Scratch, one: &str, two: &str) {
    assert_ne!(one, two);
    let (mut first, mut second) =
        (NamedLock::new(scratch.connection().await), NamedLock::new(scratch.connection().await));
    let hold = first.acquire(one, NOW).await.unwrap();
    assert_eq!(second.acquire(two, NOW).await, Err(LockError::Busy));
    first.release(hold).await.unwrap();
}

async fn an_expired_row_is_acquired_while_its_holder_continues(scratch: &Scratch) {
    let (mut paused, mut next) =
        (scratch.table(Duration::from_secs(1)).await, scratch.table(DEADLINE).await);
    let shelf = SharedCounter::default();
    let hold = paused.acquire("expires", NOW).await.unwrap();
    let read_before_the_pause = shelf.read();
    let next_hold = next.acquire("expires", DEADLINE).await.unwrap();
    assert!(next.usage().polls > 0, "it polled");
    shelf.write(shelf.read() + 1);
    shelf.write(read_before_the_pause + 1);
    assert_eq!(shelf.read(), 1, "two pieces were sold, one sale is recorded");
    assert!(
        matches!(paused.release(hold).await, Err(LockError::Lost(_))),
        "the release compares the owner"
    );
    next.release(next_hold).await.unwrap();
}

async fn an_earlier_waiter_that_pauses_is_overtaken(scratch: &Scratch) {
    let mut holder = scratch.table(DEADLINE).await;
    let hold = holder.acquire("polled", NOW).await.unwrap();
    let mut first = scratch.table(DEADLINE).await;
    assert_eq!(first.acquire("polled", NOW).await, Err(LockError::Busy));
    holder.release(hold).await.unwrap();
    let hold = scratch.table(DEADLINE).await.acquire("polled", NOW).await.unwrap();
    assert_eq!(
        first.acquire("polled", NOW).await,
        Err(LockError::Busy),
        "a polling waiter keeps no position"
    );
    drop(hold);
}

async fn all(scratch: Scratch) {
    optimistic_writers_lose_nothing_and_retry(&scratch).await;
    a_value_that_changed_back_goes_unnoticed_and_a_version_does_not(&scratch).await;
    a_waiter_is_rejected_skips_or_waits_as_configured(&scratch).await;
    a_held_row_occupies_a_transaction(&scratch).await;
    the_end_of_a_connection_releases_the_lock_while_the_holder_continues(&scratch).await;
    named_locks_wait_and_belong_to_their_connection(&scratch).await;
    an_expired_row_is_acquired_while_its_holder_continues(&scratch).await;
    an_earlier_waiter_that_pauses_is_overtaken(&scratch).await;
    let Scratch { database, url, server, .. } = scratch;
    drop(server);
    let opened = SqlConnection::open(database, &url).await;
    assert!(matches!(opened, Err(LockError::Unreachable(_))), "{opened:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_lock_in_postgres_excludes_without_faults() {
    let Some(scratch) = Scratch::start(Database::Postgres).await else { return };
    every_lock_excludes(&scratch).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_in_postgres_fail_as_they_are_documented_to() {
    let Some(scratch) = Scratch::start(Database::Postgres).await else { return };
    // Two names with the same `hashtext` value.
    let found = "SELECT min(n)::bigint, max(n)::bigint FROM generate_series(1, 300000) AS n \
                 GROUP BY hashtext('order-' || n) HAVING count(*) > 1 LIMIT 1";
    let reply = scratch.connection().await.query(found, Vec::new()).await.unwrap();
    let names: Vec<_> = reply.rows[0].iter().map(|n| format!("order-{}", n.unwrap())).collect();
    two_names_are_one_lock(&scratch, &names[0], &names[1]).await;
    all(scratch).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_lock_in_mariadb_excludes_without_faults() {
    let Some(scratch) = Scratch::start(Database::MariaDb).await else { return };
    every_lock_excludes(&scratch).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_in_mariadb_fail_as_they_are_documented_to() {
    let Some(scratch) = Scratch::start(Database::MariaDb).await else { return };
    all(scratch).await;
}
