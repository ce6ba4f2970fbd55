//! Writers that can be paused at every step and resumed in any order, against any store.
//!
//! A schedule selects the writer that takes the next step. The stores implement [`StockStore`] and [`StoreConnection`], and the caller
//! judges the [`SaleResult`]. No store makes a writer wait: a writer that meets the lock of another one gets
//! [`FenceError::Conflict`] and starts again at its next step. One schedule is therefore one interleaving.

use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use holdfast_fence::{FenceError, FencingToken};
use tokio::sync::Notify;

/// Stock before the first sale.
pub(crate) const STOCK: i64 = 100;
/// The maximum number of writers of a case.
pub(crate) const WRITERS_MAX: usize = 4;

/// The protection of the writes of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// No protection.
    None,
    /// The write is fenced, but the stock is read before the mark is raised (breaks rule 3).
    OnlyTheWrite,
    /// The token is compared in one step, and the write is another step (breaks rule 1).
    CheckedBefore,
    /// The mark is raised before the read, and compared again by the write.
    Everything,
}

/// The sales of one writer under one grant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// Read and write in one transaction, if the store has transactions.
    pub(crate) in_one: bool,
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
#[derive(Debug, Default)]
pub(crate) struct SaleResult {
    pub(crate) stock: i64,
    /// Tokens of the orders, in the order they were written.
    pub(crate) orders: Vec<u64>,
    /// Stale tokens that were rejected.
    pub(crate) refused: Vec<u64>,
    /// The number of conflicts with the lock of another writer.
    pub(crate) conflicts: usize,
}

/// A store with a stock and a list of orders.
pub(crate) trait StockStore {
    type StoreConnection: StoreConnection;
    /// The resource that rejections name.
    fn resource(&self) -> String;
    /// Resets the store to full stock, no orders and no mark.
    async fn reset(&mut self);
    /// A writer's own connection.
    async fn desk(&mut self, writer: usize, stage: &WriterSchedule) -> Self::StoreConnection;
    /// Stock and orders.
    async fn count(&mut self) -> (i64, Vec<u64>);
}

/// One writer's connection to the store. A call may also pause inside.
pub(crate) trait StoreConnection {
    async fn read(&mut self) -> Result<i64, FenceError>;
    async fn write(&mut self, token: FencingToken, stock: i64) -> Result<(), FenceError>;
    async fn read_fenced(
        &mut self,
        token: FencingToken,
        pauses: &Pauses,
    ) -> Result<i64, FenceError>;
    async fn write_fenced(
        &mut self,
        token: FencingToken,
        stock: i64,
        pauses: &Pauses,
    ) -> Result<(), FenceError>;
    /// Sells in one transaction; false if the store has no transactions.
    async fn sell_in_one(&mut self, _: FencingToken, _: &Pauses) -> Result<bool, FenceError> {
        Ok(false)
    }
}

/// Plays one case to its end.
pub(crate) async fn play(store: &mut impl StockStore, guard: Guard, case: &Case) -> SaleResult {
    store.reset().await;
    let stage = WriterSchedule::new(case.writers.len());
    let resource = store.resource();
    let mut plays = Vec::new();
    for (writer, turns) in case.writers.iter().enumerate() {
        let desk = store.desk(writer, &stage).await;
        let pauses = Pauses { stage: stage.clone(), writer };
        let resource = resource.as_str();
        plays.push(async move {
            let mut seller = Seller { desk, pauses, guard, resource };
            seller.take_turns(turns).await;
            seller.pauses.stage.set(writer, Status::Finished);
        });
    }
    tokio::join!(join_all(plays), stage.conduct(&case.schedule));
    let (stock, orders) = store.count().await;
    let acts = std::mem::take(&mut *stage.0.acts.lock().unwrap());
    SaleResult { stock, orders, ..acts }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Paused,
    Running,
    Finished,
}

/// The state of the writers of one case.
#[derive(Clone)]
pub(crate) struct WriterSchedule(Arc<Fixture>);

struct Fixture {
    status: Mutex<Vec<Status>>,
    permits: Vec<Notify>,
    changed: Notify,
    tokens: Mutex<u64>,
    acts: Mutex<SaleResult>,
}

/// The pauses of one writer.
#[derive(Clone)]
pub(crate) struct Pauses {
    pub(crate) stage: WriterSchedule,
    pub(crate) writer: usize,
}

impl Pauses {
    /// Waits until the schedule selects this writer.
    pub(crate) async fn pause(&self) {
        self.stage.set(self.writer, Status::Paused);
        self.stage.0.permits[self.writer].notified().await;
    }
}

impl WriterSchedule {
    fn new(writers: usize) -> Self {
        let permits = (0..writers).map(|_| Notify::new()).collect();
        let status = Mutex::new(vec![Status::Running; writers]);
        let (changed, tokens, acts) = (Notify::new(), Mutex::default(), Mutex::default());
        Self(Arc::new(Fixture { status, permits, changed, tokens, acts }))
    }

    fn set(&self, writer: usize, status: Status) {
        self.0.status.lock().unwrap()[writer] = status;
        self.0.changed.notify_one();
    }

    fn all(&self, status: Status) -> Vec<usize> {
        let statuses = self.0.status.lock().unwrap();
        (0..statuses.len()).filter(|writer| statuses[*writer] == status).collect()
    }

    /// Returns the next token, as the lock service does, even if older holders are still active.
    fn grant(&self) -> FencingToken {
        let mut tokens = self.0.tokens.lock().unwrap();
        *tokens += 1;
        FencingToken(*tokens)
    }

    fn note(&self, act: impl FnOnce(&mut SaleResult)) {
        act(&mut self.0.acts.lock().unwrap());
    }

    /// Gives permits as scheduled, then to the writers in turn, until all have finished.
    async fn conduct(&self, schedule: &[usize]) {
        let mut scheduled = schedule.iter();
        let mut last = 0;
        loop {
            while !self.all(Status::Running).is_empty() {
                self.0.changed.notified().await;
            }
            let paused = self.all(Status::Paused);
            let next = match scheduled.next() {
                Some(writer) if paused.contains(writer) => Some(*writer),
                Some(_) => continue,
                None => paused.iter().find(|writer| **writer > last).or(paused.first()).copied(),
            };
            let Some(writer) = next else { return };
            last = writer;
            self.set(writer, Status::Running);
            self.0.permits[writer].notify_one();
        }
    }
}

/// One writer in the middle of its turns.
struct Seller<'a, D> {
    desk: D,
    pauses: Pauses,
    guard: Guard,
    resource: &'a str,
}

impl<D: StoreConnection> Seller<'_, D> {
    async fn take_turns(&mut self, turns: &[Turn]) {
        for turn in turns {
            self.pauses.pause().await;
            let token = self.pauses.stage.grant();
            for _ in 0..if turn.again { 2 } else { 1 } {
                match self.sell(token, turn.in_one).await {
                    Ok(()) => {}
                    Err(FenceError::Stale { resource, token: refused, newest, .. }) => {
                        assert_eq!((resource.as_str(), refused), (self.resource, token));
                        assert!(
                            newest > token,
                            "{refused} was rejected although the newest is {newest}"
                        );
                        self.pauses.stage.note(|books| books.refused.push(token.0));
                        break;
                    }
                    Err(other) => panic!("writer {}: {other}", self.pauses.writer),
                }
            }
        }
    }

    async fn sell(&mut self, token: FencingToken, in_one: bool) -> Result<(), FenceError> {
        if in_one && self.guard == Guard::Everything && self.sale_in_one(token).await? {
            return Ok(());
        }
        let is_fenced = matches!(self.guard, Guard::Everything | Guard::CheckedBefore);
        let stock = if is_fenced { self.read_fenced(token).await? } else { self.read().await? };
        self.pauses.pause().await;
        match self.guard {
            Guard::Everything | Guard::OnlyTheWrite => self.write_fenced(token, stock - 1).await,
            Guard::CheckedBefore => {
                self.read_fenced(token).await?;
                self.pauses.pause().await;
                self.write(token, stock - 1).await
            }
            Guard::None => self.write(token, stock - 1).await,
        }
    }

    /// Pauses after a conflict. Returns whether the caller must try again.
    async fn again<T>(&self, outcome: &Result<T, FenceError>) -> bool {
        let conflict = matches!(outcome, Err(FenceError::Conflict { .. }));
        if conflict {
            self.pauses.stage.note(|books| books.conflicts += 1);
            self.pauses.pause().await;
        }
        conflict
    }

    async fn read(&mut self) -> Result<i64, FenceError> {
        loop {
            let outcome = self.desk.read().await;
            if !self.again(&outcome).await {
                return outcome;
            }
        }
    }

    async fn write(&mut self, token: FencingToken, stock: i64) -> Result<(), FenceError> {
        loop {
            let outcome = self.desk.write(token, stock).await;
            if !self.again(&outcome).await {
                return outcome;
            }
        }
    }

    async fn read_fenced(&mut self, token: FencingToken) -> Result<i64, FenceError> {
        loop {
            let outcome = self.desk.read_fenced(token, &self.pauses).await;
            if !self.again(&outcome).await {
                return outcome;
            }
        }
    }

    async fn write_fenced(&mut self, token: FencingToken, stock: i64) -> Result<(), FenceError> {
        loop {
            let outcome = self.desk.write_fenced(token, stock, &self.pauses).await;
            if !self.again(&outcome).await {
                return outcome;
            }
        }
    }

    async fn sale_in_one(&mut self, token: FencingToken) -> Result<bool, FenceError> {
        loop {
            let outcome = self.desk.sell_in_one(token, &self.pauses).await;
            if !self.again(&outcome).await {
                return outcome;
            }
        }
    }
}
