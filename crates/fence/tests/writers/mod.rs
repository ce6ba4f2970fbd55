//! Writers that can be paused at every step and resumed in any order, against a real database.
//!
//! A schedule selects the writer that takes the next step, and the caller judges the [`SaleResult`]. The next step begins
//! only when every writer has paused, finished, or waits for a row lock. One schedule is therefore one interleaving.

use std::cell::{Cell, RefCell};

use futures_util::future::join_all;
use holdfast_fence::postgres::begin;
use holdfast_fence::{FenceError, FencingToken, guard_table_sql, schema_sql};
use tokio::sync::Notify;
use tokio_postgres::Client;

use crate::scratch::Postgres;

/// Stock before the first sale.
pub(crate) const STOCK: i64 = 100;
/// The maximum number of writers of a case.
pub(crate) const WRITERS_MAX: usize = 4;
const RESOURCE: &str = "shop";

/// The protection of the writes of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// No protection.
    None,
    /// The write is fenced, but the stock is read before the mark is raised (breaks rule 3).
    OnlyTheWrite,
    /// Every transaction raises the mark before it reads.
    Everything,
}

/// The sales of one writer under one grant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// Read and write in two transactions, with a pause between them.
    pub(crate) split: bool,
    /// Sell a second time with the same token.
    pub(crate) again: bool,
}

/// One interleaving: the turns of each writer, and the writer of each step.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) writers: Vec<Vec<Turn>>,
    pub(crate) schedule: Vec<usize>,
}

/// The result of a case.
#[derive(Debug)]
pub(crate) struct SaleResult {
    pub(crate) stock: i64,
    /// Tokens of the orders.
    pub(crate) orders: Vec<i64>,
    /// Tokens of all committed fenced transactions, in the order they held the mark.
    pub(crate) accepted: Vec<i64>,
    /// Stale tokens that were rejected.
    pub(crate) refused: Vec<u64>,
    /// The number of observed waits for the row lock of another writer.
    pub(crate) blocked: usize,
}

impl SaleResult {
    pub(crate) fn sum(&self) -> i64 {
        self.stock + self.orders.len().cast_signed() as i64
    }
}

/// A database with connections for the writers, used for one case after the other.
pub(crate) struct Arena {
    guard: Guard,
    observer: Client,
    writers: Vec<Client>,
}

impl Arena {
    pub(crate) async fn new(postgres: &Postgres, guard: Guard) -> Self {
        let observer = postgres.connect("observer").await.unwrap();
        observer.batch_execute(schema_sql()).await.unwrap();
        let tables = "CREATE TABLE good (id bigint PRIMARY KEY, stock bigint NOT NULL);
            CREATE TABLE sale (seq bigserial PRIMARY KEY, token bigint NOT NULL);
            CREATE TABLE accepted (seq bigserial PRIMARY KEY, token bigint NOT NULL);
            CREATE VIEW stuck AS SELECT application_name AS name FROM pg_stat_activity
                WHERE cardinality(pg_blocking_pids(pid)) > 0;";
        observer.batch_execute(tables).await.unwrap();
        if guard != Guard::None {
            for table in ["good", "sale", "accepted"] {
                observer.batch_execute(&guard_table_sql(table).unwrap()).await.unwrap();
            }
        }
        let mut writers = Vec::new();
        for writer in 0..WRITERS_MAX {
            writers.push(postgres.connect(&name(writer)).await.unwrap());
        }
        Self { guard, observer, writers }
    }

    /// Plays one case to its end.
    pub(crate) async fn play(&mut self, case: &Case) -> SaleResult {
        self.reset().await;
        let count = case.writers.len();
        let stage = WriterSchedule::new(count);
        let guard = self.guard;
        let sellers = self.writers.iter_mut().zip(&case.writers).enumerate();
        let plays = sellers.map(|(writer, (client, turns))| {
            let stage = &stage;
            async move {
                let mut seller = Seller { stage, writer, client, guard };
                seller.take_turns(turns).await;
                stage.set(writer, Status::Finished);
            }
        });
        tokio::join!(join_all(plays), stage.conduct(&case.schedule, &self.observer));
        self.books(&stage).await
    }

    async fn reset(&self) {
        let reset = format!(
            "SET session_replication_role = replica;
             TRUNCATE good, sale, accepted RESTART IDENTITY; DELETE FROM fence;
             INSERT INTO good VALUES (1, {STOCK}); RESET session_replication_role;"
        );
        self.observer.batch_execute(&reset).await.unwrap();
    }

    async fn books(&self, stage: &WriterSchedule) -> SaleResult {
        let numbers = async |query: &str| -> Vec<i64> {
            let rows = self.observer.query(query, &[]).await.unwrap();
            rows.iter().map(|row| row.get(0)).collect()
        };
        SaleResult {
            stock: numbers("SELECT stock FROM good").await[0],
            orders: numbers("SELECT token FROM sale ORDER BY seq").await,
            accepted: numbers("SELECT token FROM accepted ORDER BY seq").await,
            refused: stage.refused.take(),
            blocked: stage.blocked.get(),
        }
    }
}

fn name(writer: usize) -> String {
    format!("writer-{writer}")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Paused,
    Running,
    Finished,
}

/// The state of the writers of one case.
struct WriterSchedule {
    status: RefCell<Vec<Status>>,
    permits: Vec<Notify>,
    tokens: Cell<u64>,
    refused: RefCell<Vec<u64>>,
    blocked: Cell<usize>,
}

impl WriterSchedule {
    fn new(writers: usize) -> Self {
        Self {
            status: RefCell::new(vec![Status::Running; writers]),
            permits: (0..writers).map(|_| Notify::new()).collect(),
            tokens: Cell::new(0),
            refused: RefCell::default(),
            blocked: Cell::new(0),
        }
    }

    fn set(&self, writer: usize, status: Status) {
        self.status.borrow_mut()[writer] = status;
    }

    fn all(&self, status: Status) -> Vec<usize> {
        let statuses = self.status.borrow();
        (0..statuses.len()).filter(|writer| statuses[*writer] == status).collect()
    }

    /// Returns the next token, as the lock service does, even if older holders are still active.
    fn grant(&self) -> FencingToken {
        self.tokens.set(self.tokens.get() + 1);
        FencingToken(self.tokens.get())
    }

    async fn pause(&self, writer: usize) {
        self.set(writer, Status::Paused);
        self.permits[writer].notified().await;
    }

    /// Gives permits as scheduled, then to the first paused writer, until all have finished.
    async fn conduct(&self, schedule: &[usize], observer: &Client) {
        let mut scheduled = schedule.iter();
        while self.all(Status::Finished).len() < self.permits.len() {
            self.settle(observer).await;
            let paused = self.all(Status::Paused);
            let next = match scheduled.next() {
                Some(writer) if paused.contains(writer) => Some(*writer),
                Some(_) => continue,
                None => paused.first().copied(),
            };
            let Some(writer) = next else { continue };
            self.set(writer, Status::Running);
            self.permits[writer].notify_one();
        }
    }

    /// Returns when every writer has paused or finished, or waits for another writer's row lock. An observation is
    /// valid only if no writer took a step meanwhile, because a commit ends the waits for its locks.
    async fn settle(&self, observer: &Client) {
        loop {
            let running = self.all(Status::Running);
            if running.is_empty() {
                return;
            }
            let stuck = observer.query("SELECT name FROM stuck", &[]).await.unwrap();
            let stuck: Vec<String> = stuck.iter().map(|row| row.get(0)).collect();
            let all_stuck = running.iter().all(|writer| stuck.contains(&name(*writer)));
            if all_stuck && self.all(Status::Running) == running {
                self.blocked.set(self.blocked.get() + running.len());
                return;
            }
        }
    }
}

/// One writer in the middle of its turns.
struct Seller<'a> {
    stage: &'a WriterSchedule,
    writer: usize,
    client: &'a mut Client,
    guard: Guard,
}

impl Seller<'_> {
    async fn take_turns(&mut self, turns: &[Turn]) {
        for turn in turns {
            self.stage.pause(self.writer).await;
            let token = self.stage.grant();
            let sales = if turn.again { 2 } else { 1 };
            for _ in 0..sales {
                match self.sell(token, turn.split).await {
                    Ok(()) => {}
                    Err(FenceError::Stale { resource, token: refused, newest, .. }) => {
                        assert_eq!((resource.as_str(), refused), (RESOURCE, token));
                        assert!(
                            newest > token,
                            "{refused} was rejected although the newest is {newest}"
                        );
                        self.stage.refused.borrow_mut().push(refused.0);
                        break;
                    }
                    Err(other) => panic!("writer {}: {other}", self.writer),
                }
            }
        }
    }

    async fn sell(&mut self, token: FencingToken, split: bool) -> Result<(), FenceError> {
        match self.guard {
            Guard::Everything if split => self.sell_in_two(token).await,
            Guard::Everything => self.sell_in_one(token).await,
            Guard::OnlyTheWrite => self.sell_with_fenced_write(token).await,
            Guard::None => self.sell_unfenced(token).await,
        }
    }

    async fn sell_in_one(&mut self, token: FencingToken) -> Result<(), FenceError> {
        let (stage, writer) = (self.stage, self.writer);
        stage.pause(writer).await;
        let transaction = begin(self.client, RESOURCE, token).await?;
        stage.pause(writer).await;
        let stock = read(&transaction).await?;
        stage.pause(writer).await;
        note(&transaction, token).await?;
        write(&transaction, stock - 1, token).await?;
        stage.pause(writer).await;
        Ok(transaction.commit().await?)
    }

    async fn sell_in_two(&mut self, token: FencingToken) -> Result<(), FenceError> {
        let (stage, writer) = (self.stage, self.writer);
        stage.pause(writer).await;
        let transaction = begin(self.client, RESOURCE, token).await?;
        note(&transaction, token).await?;
        stage.pause(writer).await;
        let stock = read(&transaction).await?;
        stage.pause(writer).await;
        transaction.commit().await?;
        self.write_fenced(token, stock - 1).await
    }

    async fn sell_with_fenced_write(&mut self, token: FencingToken) -> Result<(), FenceError> {
        self.stage.pause(self.writer).await;
        let stock = read(self.client).await?;
        self.write_fenced(token, stock - 1).await
    }

    async fn write_fenced(&mut self, token: FencingToken, stock: i64) -> Result<(), FenceError> {
        let (stage, writer) = (self.stage, self.writer);
        stage.pause(writer).await;
        let transaction = begin(self.client, RESOURCE, token).await?;
        stage.pause(writer).await;
        note(&transaction, token).await?;
        write(&transaction, stock, token).await?;
        stage.pause(writer).await;
        Ok(transaction.commit().await?)
    }

    async fn sell_unfenced(&mut self, token: FencingToken) -> Result<(), FenceError> {
        let (stage, writer) = (self.stage, self.writer);
        stage.pause(writer).await;
        let stock = read(self.client).await?;
        stage.pause(writer).await;
        let transaction = self.client.transaction().await?;
        write(&transaction, stock - 1, token).await?;
        stage.pause(writer).await;
        Ok(transaction.commit().await?)
    }
}

async fn read(client: &impl tokio_postgres::GenericClient) -> Result<i64, FenceError> {
    Ok(client.query_one("SELECT stock FROM good WHERE id = 1", &[]).await?.get(0))
}

async fn write(
    client: &impl tokio_postgres::GenericClient,
    stock: i64,
    token: FencingToken,
) -> Result<(), FenceError> {
    client.execute("UPDATE good SET stock = $1 WHERE id = 1", &[&stock]).await?;
    let token = token.0.cast_signed();
    client.execute("INSERT INTO sale (token) VALUES ($1)", &[&token]).await?;
    Ok(())
}

/// Records a fenced transaction. Its sequence number is drawn while the mark is locked.
async fn note(
    client: &impl tokio_postgres::GenericClient,
    token: FencingToken,
) -> Result<(), FenceError> {
    let token = token.0.cast_signed();
    client.execute("INSERT INTO accepted (token) VALUES ($1)", &[&token]).await?;
    Ok(())
}
