//! The guard of MySQL and MariaDB against a real MariaDB.

use std::path::PathBuf;

use holdfast_fence::mysql::{SCHEMA_SQL, begin, begin_as};
use holdfast_fence::{Claim, FenceError, FencingToken};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder, TxOpts};

use crate::model::{TestStore, a_store_judges_as_the_rule_says, invalid_claims_are_rejected};
use crate::pausing::{Pauses, STOCK, StockStore, StoreConnection, WriterSchedule};
use crate::search::{half_a_guard_loses_updates, no_interleaving_loses_an_update, runtime};
use crate::servers::{Server, mariadb_or_skip};

pub(crate) const RESOURCE: &str = "shop";

async fn connect(socket: PathBuf, database: Option<&str>) -> Result<Conn, mysql_async::Error> {
    let socket = socket.to_string_lossy().into_owned();
    let options = OptsBuilder::default().user(Some("root")).socket(Some(socket));
    Conn::new(options.db_name(database)).await
}

pub(crate) async fn connection(server: &mut Server) -> Conn {
    let mut connection = server.connect(|socket| connect(socket, Some("shop"))).await;
    // A writer that meets the lock of another one starts again at its next step.
    connection.query_drop("SET innodb_lock_wait_timeout = 0").await.unwrap();
    connection
}

pub(crate) struct MariaStore {
    pub(crate) server: Server,
    pub(crate) observer: Conn,
}

impl MariaStore {
    pub(crate) async fn open(mut server: Server) -> Self {
        let mut root = server.connect(|socket| connect(socket, None)).await;
        root.query_drop("CREATE DATABASE shop").await.unwrap();
        root.disconnect().await.unwrap();
        let mut observer = connection(&mut server).await;
        // Safe to run again.
        for statement in SCHEMA_SQL.into_iter().chain(SCHEMA_SQL) {
            observer.query_drop(statement).await.unwrap();
        }
        let tables = [
            "CREATE TABLE good (stock bigint NOT NULL) ENGINE = InnoDB",
            "CREATE TABLE sale (seq bigint AUTO_INCREMENT PRIMARY KEY, token bigint NOT NULL) ENGINE = InnoDB",
        ];
        for table in tables {
            observer.query_drop(table).await.unwrap();
        }
        Self { server, observer }
    }
}

impl StockStore for MariaStore {
    type StoreConnection = MariaConnection;

    fn resource(&self) -> String {
        RESOURCE.to_owned()
    }

    async fn reset(&mut self) {
        for statement in ["DELETE FROM fence", "DELETE FROM good", "DELETE FROM sale"] {
            self.observer.query_drop(statement).await.unwrap();
        }
        self.observer.exec_drop("INSERT INTO good VALUES (?)", (STOCK,)).await.unwrap();
    }

    async fn desk(&mut self, _: usize, _: &WriterSchedule) -> MariaConnection {
        MariaConnection(connection(&mut self.server).await)
    }

    async fn count(&mut self) -> (i64, Vec<u64>) {
        let stock = self.observer.query_first("SELECT stock FROM good").await.unwrap().unwrap();
        (stock, self.observer.query("SELECT token FROM sale ORDER BY seq").await.unwrap())
    }
}

pub(crate) struct MariaConnection(Conn);

pub(crate) async fn read(queryable: &mut impl Queryable) -> Result<i64, FenceError> {
    Ok(queryable.query_first("SELECT stock FROM good").await?.unwrap())
}

pub(crate) async fn write(
    queryable: &mut impl Queryable,
    token: FencingToken,
    stock: i64,
) -> Result<(), FenceError> {
    queryable.exec_drop("UPDATE good SET stock = ?", (stock,)).await?;
    Ok(queryable.exec_drop("INSERT INTO sale (token) VALUES (?)", (token.0,)).await?)
}

impl StoreConnection for MariaConnection {
    async fn read(&mut self) -> Result<i64, FenceError> {
        read(&mut self.0).await
    }

    async fn write(&mut self, token: FencingToken, stock: i64) -> Result<(), FenceError> {
        let mut transaction = self.0.start_transaction(TxOpts::default()).await?;
        write(&mut transaction, token, stock).await?;
        Ok(transaction.commit().await?)
    }

    async fn read_fenced(
        &mut self,
        token: FencingToken,
        pauses: &Pauses,
    ) -> Result<i64, FenceError> {
        let mut transaction = begin(&mut self.0, RESOURCE, token).await?;
        pauses.pause().await;
        let stock = read(&mut transaction).await?;
        pauses.pause().await;
        transaction.commit().await?;
        Ok(stock)
    }

    async fn write_fenced(
        &mut self,
        token: FencingToken,
        stock: i64,
        pauses: &Pauses,
    ) -> Result<(), FenceError> {
        let mut transaction = begin(&mut self.0, RESOURCE, token).await?;
        pauses.pause().await;
        write(&mut transaction, token, stock).await?;
        pauses.pause().await;
        Ok(transaction.commit().await?)
    }

    async fn sell_in_one(
        &mut self,
        token: FencingToken,
        pauses: &Pauses,
    ) -> Result<bool, FenceError> {
        let mut transaction = begin(&mut self.0, RESOURCE, token).await?;
        pauses.pause().await;
        let stock = read(&mut transaction).await?;
        pauses.pause().await;
        write(&mut transaction, token, stock - 1).await?;
        transaction.commit().await?;
        Ok(true)
    }
}

impl TestStore for MariaStore {
    fn resource(&self) -> String {
        RESOURCE.to_owned()
    }

    async fn forget(&mut self) {
        self.observer.query_drop("DELETE FROM fence").await.unwrap();
    }

    async fn show(&mut self, claim: Claim) -> Result<(), FenceError> {
        Ok(begin(&mut self.observer, RESOURCE, claim).await?.commit().await?)
    }
}

#[test]
fn mariadb_judges_as_the_rule_says() {
    let Some(server) = mariadb_or_skip() else { return };
    let runtime = runtime();
    let mut store = runtime.block_on(MariaStore::open(server));
    invalid_claims_are_rejected(&runtime, &mut store);
    a_store_judges_as_the_rule_says(&runtime, store);
}

#[test]
fn no_interleaving_of_paused_writers_loses_an_update_in_mariadb() {
    let Some(server) = mariadb_or_skip() else { return };
    let runtime = runtime();
    let store = runtime.block_on(MariaStore::open(server));
    no_interleaving_loses_an_update(&runtime, store);
}

#[test]
fn half_a_guard_loses_updates_in_mariadb() {
    let Some(server) = mariadb_or_skip() else { return };
    let runtime = runtime();
    let store = runtime.block_on(MariaStore::open(server));
    half_a_guard_loses_updates(&runtime, store);
}

/// Waits until a transaction of the server waits for another's lock.
async fn until_a_transaction_waits(observer: &mut Conn) {
    let waiting =
        "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_mins(1);
    // The server refreshes this table only after 100 ms without a read.
    let mut looks = tokio::time::interval(std::time::Duration::from_millis(200));
    loop {
        looks.tick().await;
        let count: u64 = observer.query_first(waiting).await.unwrap().unwrap();
        if count > 0 {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "no transaction waits");
    }
}

/// A stale claim that waits at the mark for a newer one is rejected after the wait. A newer claim that waits for an
/// older one then reads the older one's write.
#[test]
fn a_claim_that_waited_is_judged_by_the_mark_after_the_wait() {
    let Some(server) = mariadb_or_skip() else { return };
    runtime().block_on(async {
        let mut store = MariaStore::open(server).await;
        store.reset().await;
        let mut older = connection(&mut store.server).await;
        let mut newer = connection(&mut store.server).await;
        for waiting in [&mut older, &mut newer] {
            waiting.query_drop("SET innodb_lock_wait_timeout = 60").await.unwrap();
        }
        begin(&mut older, RESOURCE, FencingToken(32)).await.unwrap().commit().await.unwrap();

        let mut transaction =
            begin_as(&mut older, RESOURCE, FencingToken(33), "web1").await.unwrap();
        write(&mut transaction, FencingToken(33), 99).await.unwrap();
        let (read_by_newer, ()) = tokio::join!(
            async {
                let mut transaction =
                    begin_as(&mut newer, RESOURCE, FencingToken(34), "web2").await.unwrap();
                let stock = read(&mut transaction).await.unwrap();
                transaction.commit().await.unwrap();
                stock
            },
            async {
                until_a_transaction_waits(&mut store.observer).await;
                transaction.commit().await.unwrap();
            }
        );
        assert_eq!(read_by_newer, 99);

        let transaction = begin_as(&mut newer, RESOURCE, FencingToken(35), "web2").await.unwrap();
        let (rejection, ()) = tokio::join!(
            async { begin(&mut older, RESOURCE, FencingToken(33)).await.err().unwrap() },
            async {
                until_a_transaction_waits(&mut store.observer).await;
                transaction.commit().await.unwrap();
            }
        );
        let FenceError::Stale { resource, token, newest, holder } = rejection else {
            panic!("{rejection}")
        };
        let facts = (resource.as_str(), token.0, newest.0, holder.as_deref());
        assert_eq!(facts, (RESOURCE, 33, 35, Some("web2")));
    });
}

/// Text of MySQL compares without the spaces at its end.
#[test]
fn names_that_differ_in_a_space_or_a_letter_have_separate_marks() {
    let Some(server) = mariadb_or_skip() else { return };
    runtime().block_on(async {
        let mut store = MariaStore::open(server).await;
        let names = ["a", "a ", "A", "ä", "a\u{308}", " "];
        for (resource, number) in names.into_iter().zip(35..) {
            let newest = FencingToken(number);
            begin(&mut store.observer, resource, newest).await.unwrap().commit().await.unwrap();
        }
        for (resource, number) in names.into_iter().zip(35..) {
            let stale = begin(&mut store.observer, resource, FencingToken(number - 1)).await;
            let FenceError::Stale { newest, .. } = stale.err().unwrap() else { panic!() };
            assert_eq!(newest, FencingToken(number), "{resource:?}");
        }
    });
}

/// A mark must survive a restart.
#[test]
fn the_mark_survives_a_restart_of_mariadb() {
    let Some(server) = mariadb_or_skip() else { return };
    runtime().block_on(async {
        let mut store = MariaStore::open(server).await;
        begin(&mut store.observer, "orders", FencingToken(34))
            .await
            .unwrap()
            .commit()
            .await
            .unwrap();
        store.server.restart();
        let mut connection = connection(&mut store.server).await;
        let rejection = begin(&mut connection, "orders", FencingToken(33)).await.err().unwrap();
        assert!(
            matches!(rejection, FenceError::Stale { newest: FencingToken(34), .. }),
            "{rejection}"
        );
        begin(&mut connection, "orders", FencingToken(34)).await.unwrap().commit().await.unwrap();
    });
}
