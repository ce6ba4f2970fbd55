//! A locked row: `SELECT … FOR UPDATE` in a transaction that stays open while the lock is held.
//!
//! A client waits in the database's queue with a timeout, or gets an error (`NOWAIT`), or skips the locked row
//! (`SKIP LOCKED`); the latter two poll. The row is free after the end of the connection, even if the holder continues.

use std::time::Duration;

use super::{Database, SqlConnection, connect};
use crate::limitation::Limitation::{
    EndsWithConnection, NoToken, OccupiesConnection, OneServer, Polls, Unfair,
};
use crate::lock::{Adapter, HeldLock, LoadUsage, LockError, LockKind, LockSettings};
use crate::polling::Polling;

pub const QUEUED: LockKind = LockKind {
    name: "for-update",
    limitations: &[OccupiesConnection, EndsWithConnection, NoToken, OneServer],
    connect: |target| connect(target, |to, settings| ForUpdate::new(to, RowWait::Queue, settings)),
};
pub const NOWAIT: LockKind = LockKind {
    name: "nowait",
    limitations: &[OccupiesConnection, EndsWithConnection, NoToken, Polls, Unfair, OneServer],
    connect: |target| connect(target, |to, settings| ForUpdate::new(to, RowWait::NoWait, settings)),
};
pub const SKIP_LOCKED: LockKind = LockKind {
    name: "skip-locked",
    connect: |target| connect(target, |to, settings| ForUpdate::new(to, RowWait::Skip, settings)),
    ..NOWAIT
};

/// The behaviour of a client when the row is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowWait {
    /// Waits in the database's queue. MariaDB counts whole seconds.
    Queue,
    /// Gets an error and attempts again after a pause.
    NoWait,
    /// Gets no row and attempts again after a pause.
    Skip,
}

#[derive(Debug)]
pub struct ForUpdate {
    connection: SqlConnection,
    wait: RowWait,
    settings: LockSettings,
    /// The lock whose row exists.
    known: Option<String>,
}

impl ForUpdate {
    pub fn new(connection: SqlConnection, wait: RowWait, settings: LockSettings) -> Self {
        Self { connection, wait, settings, known: None }
    }

    pub fn connection(&mut self) -> &mut SqlConnection {
        &mut self.connection
    }

    /// Adds the row if it is missing. Reads before the insert: an insert would wait for the holder of the row without
    /// a timeout.
    async fn add_row(&mut self, lock: &str) -> Result<(), LockError> {
        if self.known.as_deref() == Some(lock) {
            return Ok(());
        }
        let statements = self.connection.statements();
        let found = self.connection.query(statements.read_row, vec![lock.into()]).await?;
        if found.rows.is_empty() {
            self.connection.query(statements.add_row, vec![lock.into()]).await?;
        }
        self.known = Some(lock.to_owned());
        Ok(())
    }

    /// Runs one transaction, which stays open only if it locked the row.
    async fn attempt(&mut self, lock: &str, timeout: Duration) -> Result<(), LockError> {
        let (begin, select) = self.transaction(timeout);
        self.connection.execute(&begin).await?;
        let locked = self.connection.query(&select, vec![lock.into()]).await;
        match locked.map(|reply| reply.rows.len()) {
            Ok(1) => Ok(()),
            other => {
                self.connection.execute("ROLLBACK").await?;
                other.and(Err(LockError::Busy))
            }
        }
    }

    /// The statements that begin the transaction and lock the row.
    fn transaction(&self, timeout: Duration) -> (String, String) {
        let statements = self.connection.statements();
        let (begin, select) = (statements.begin, statements.lock_row);
        let no_wait = self.wait == RowWait::Queue && timeout.is_zero();
        let wait = if no_wait { RowWait::NoWait } else { self.wait };
        match (wait, self.connection.database) {
            (RowWait::NoWait, _) => (begin.to_owned(), format!("{select} NOWAIT")),
            (RowWait::Skip, _) => (begin.to_owned(), format!("{select} SKIP LOCKED")),
            (RowWait::Queue, Database::Postgres) => {
                let millis = timeout.as_millis().max(1);
                (format!("{begin}; SET LOCAL lock_timeout = {millis}"), select.to_owned())
            }
            (RowWait::Queue, Database::MariaDb) => {
                let seconds = timeout.as_millis().div_ceil(1000);
                (begin.to_owned(), format!("{select} WAIT {seconds}"))
            }
        }
    }
}

impl Adapter for ForUpdate {
    async fn acquire(&mut self, lock: &str, timeout: Duration) -> Result<HeldLock, LockError> {
        self.add_row(lock).await?;
        let polling = Polling::new(timeout, self.settings.pause);
        loop {
            match self.attempt(lock, polling.remaining()).await {
                Err(LockError::Busy) => polling.pause(&self.connection.counter).await?,
                done => return done.map(|()| HeldLock::new(lock, "")),
            }
        }
    }

    async fn release(&mut self, _held: HeldLock) -> Result<(), LockError> {
        self.connection.execute("COMMIT").await
    }

    fn usage(&self) -> LoadUsage {
        self.connection.usage()
    }
}
