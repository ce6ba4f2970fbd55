//! The guard of SQLite against a real database file.

use std::path::PathBuf;
use std::time::Duration;

use holdfast_fence::sqlite::{SCHEMA_SQL, begin, begin_as, largest_mark};
use holdfast_fence::{Claim, FenceError, FencingToken};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::model::{TestStore, a_store_judges_as_the_rule_says, invalid_claims_are_rejected};
use crate::pausing::{Pauses, STOCK, StockStore, StoreConnection, WriterSchedule};
use crate::search::{half_a_guard_loses_updates, no_interleaving_loses_an_update, runtime};

pub(crate) const RESOURCE: &str = "shop";
const READ: &str = "SELECT stock FROM good";
const WRITE: &str = "UPDATE good SET stock = ?1";
const ORDER: &str = "INSERT INTO sale (token) VALUES (?1)";

pub(crate) struct SqliteStore {
    directory: TempDir,
    pub(crate) observer: Connection,
}

pub(crate) fn open(path: PathBuf) -> Connection {
    let connection = Connection::open(path).unwrap();
    // A writer that meets the lock of another one starts again at its next step.
    connection.busy_timeout(Duration::ZERO).unwrap();
    // The data is disposable.
    connection.pragma_update(None, "synchronous", "OFF").unwrap();
    connection
}

impl SqliteStore {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let observer = open(directory.path().join("shop.db"));
        observer.pragma_update(None, "journal_mode", "WAL").unwrap();
        observer.execute_batch(SCHEMA_SQL).unwrap();
        observer.execute_batch(SCHEMA_SQL).unwrap();
        let tables = "CREATE TABLE good (stock INTEGER NOT NULL);
            CREATE TABLE sale (seq INTEGER PRIMARY KEY, token INTEGER NOT NULL);";
        observer.execute_batch(tables).unwrap();
        Self { directory, observer }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("shop.db")
    }
}

impl StockStore for SqliteStore {
    type StoreConnection = SqliteConnection;

    fn resource(&self) -> String {
        RESOURCE.to_owned()
    }

    async fn reset(&mut self) {
        let reset = format!(
            "DELETE FROM fence; DELETE FROM good; DELETE FROM sale; INSERT INTO good VALUES ({STOCK});"
        );
        self.observer.execute_batch(&reset).unwrap();
    }

    async fn desk(&mut self, _: usize, _: &WriterSchedule) -> SqliteConnection {
        SqliteConnection(open(self.path()))
    }

    async fn count(&mut self) -> (i64, Vec<u64>) {
        let stock = self.observer.query_row(READ, [], |row| row.get(0)).unwrap();
        let mut orders = self.observer.prepare("SELECT token FROM sale ORDER BY seq").unwrap();
        let orders = orders.query_map([], |row| row.get::<_, i64>(0)).unwrap();
        (stock, orders.map(|token| token.unwrap().cast_unsigned()).collect())
    }
}

pub(crate) struct SqliteConnection(Connection);

pub(crate) fn read(connection: &Connection) -> Result<i64, FenceError> {
    Ok(connection.query_row(READ, [], |row| row.get(0))?)
}

pub(crate) fn write(
    connection: &Connection,
    token: FencingToken,
    stock: i64,
) -> Result<(), FenceError> {
    connection.execute(WRITE, [stock])?;
    connection.execute(ORDER, [token.0.cast_signed()])?;
    Ok(())
}

impl StoreConnection for SqliteConnection {
    async fn read(&mut self) -> Result<i64, FenceError> {
        read(&self.0)
    }

    async fn write(&mut self, token: FencingToken, stock: i64) -> Result<(), FenceError> {
        let transaction = self.0.transaction()?;
        write(&transaction, token, stock)?;
        Ok(transaction.commit()?)
    }

    async fn read_fenced(
        &mut self,
        token: FencingToken,
        pauses: &Pauses,
    ) -> Result<i64, FenceError> {
        let transaction = begin(&mut self.0, RESOURCE, token)?;
        pauses.pause().await;
        let stock = read(&transaction)?;
        pauses.pause().await;
        transaction.commit()?;
        Ok(stock)
    }

    async fn write_fenced(
        &mut self,
        token: FencingToken,
        stock: i64,
        pauses: &Pauses,
    ) -> Result<(), FenceError> {
        let transaction = begin(&mut self.0, RESOURCE, token)?;
        pauses.pause().await;
        write(&transaction, token, stock)?;
        pauses.pause().await;
        Ok(transaction.commit()?)
    }

    async fn sell_in_one(
        &mut self,
        token: FencingToken,
        pauses: &Pauses,
    ) -> Result<bool, FenceError> {
        let transaction = begin(&mut self.0, RESOURCE, token)?;
        pauses.pause().await;
        let stock = read(&transaction)?;
        pauses.pause().await;
        write(&transaction, token, stock - 1)?;
        transaction.commit()?;
        Ok(true)
    }
}

impl TestStore for SqliteStore {
    fn resource(&self) -> String {
        RESOURCE.to_owned()
    }

    async fn forget(&mut self) {
        self.observer.execute("DELETE FROM fence", []).unwrap();
    }

    async fn show(&mut self, claim: Claim) -> Result<(), FenceError> {
        Ok(begin(&mut self.observer, RESOURCE, claim)?.commit()?)
    }
}

#[test]
fn the_largest_mark_of_sqlite_is_found() {
    let mut store = SqliteStore::new();
    assert_eq!(largest_mark(&store.observer).unwrap(), None);
    for (resource, token) in [("orders", 9), ("stock", 4)] {
        begin(&mut store.observer, resource, FencingToken(token)).unwrap().commit().unwrap();
    }
    assert_eq!(largest_mark(&store.observer).unwrap(), Some(FencingToken(9)));
    let empty = Connection::open_in_memory().unwrap();
    assert_eq!(largest_mark(&empty).unwrap(), None);
}

#[test]
fn sqlite_judges_as_the_rule_says() {
    let (runtime, mut store) = (runtime(), SqliteStore::new());
    invalid_claims_are_rejected(&runtime, &mut store);
    a_store_judges_as_the_rule_says(&runtime, store);
}

#[test]
fn no_interleaving_of_paused_writers_loses_an_update_in_sqlite() {
    no_interleaving_loses_an_update(&runtime(), SqliteStore::new());
}

#[test]
fn half_a_guard_loses_updates_in_sqlite() {
    half_a_guard_loses_updates(&runtime(), SqliteStore::new());
}

#[test]
fn a_rejection_by_sqlite_has_all_facts_and_a_mark_cannot_be_lowered() {
    let store = SqliteStore::new();
    let mut connection = open(store.path());
    begin_as(&mut connection, "orders", FencingToken(34), "web2").unwrap().commit().unwrap();
    drop(connection);
    let mut connection = open(store.path());
    let rejection = begin_as(&mut connection, "orders", FencingToken(33), "web1").unwrap_err();
    let FenceError::Stale { resource, token, newest, holder } = rejection else {
        panic!("{rejection}")
    };
    let facts = (resource.as_str(), token.0, newest.0, holder.as_deref());
    assert_eq!(facts, ("orders", 33, 34, Some("web2")));
    let lowered = connection.execute("UPDATE fence SET token = 1", []).unwrap_err();
    assert!(lowered.to_string().contains("FN001"), "{lowered}");
    // A rejected transaction releases the write lock.
    begin(&mut connection, "orders", FencingToken(34)).unwrap().commit().unwrap();
}
