//! A locked row: `SELECT … FOR UPDATE` in a transaction that stays open as long as the lock is held.
//!
//! Owns the three ways to wait: in the database's queue with a limit, not at all (`NOWAIT`), and past the locked row
//! (`SKIP LOCKED`); the latter two poll. The lock is the connection's: when that ends, the row is free, whatever the holder
//! believes.

use std::time::Duration;

use super::{Database, Door, Settings};
use crate::{Deadline, Hold, Limitation, LockClient, LockError, LockFuture, LockUsage};

/// What to do when the row is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Wait in the database's queue. `MariaDB` counts whole seconds.
    InQueue,
    /// Be refused, and ask again after a pause.
    Refused,
    /// See no row, and ask again after a pause.
    Skipped,
}

/// A client of this lock.
#[derive(Debug)]
pub struct ForUpdate {
    door: Door,
    wait: Wait,
    settings: Settings,
    /// The row that was seen to be there.
    known: Option<String>,
}

impl ForUpdate {
    pub(crate) const LIMITATIONS: &[Limitation] = &[
        Limitation::TiesUpConnection,
        Limitation::DiesWithConnection,
        Limitation::NoFence,
        Limitation::OneServer,
    ];
    pub(crate) const POLLED: &[Limitation] = &[
        Limitation::TiesUpConnection,
        Limitation::DiesWithConnection,
        Limitation::NoFence,
        Limitation::Polls,
        Limitation::Unfair,
        Limitation::OneServer,
    ];

    /// A client at this door.
    pub fn new(door: Door, wait: Wait, settings: Settings) -> Self {
        Self { door, wait, settings, known: None }
    }

    /// Its connection.
    pub fn door(&mut self) -> &mut Door {
        &mut self.door
    }

    /// Looks before it inserts: an insert would wait for whoever holds the row, without a limit.
    async fn add_row(&mut self, lock: &str) -> Result<(), LockError> {
        if self.known.as_deref() == Some(lock) {
            return Ok(());
        }
        let words = self.door.database.words();
        if self.door.ask(words.read_row, vec![lock.into()]).await?.rows.is_empty() {
            self.door.ask(words.add_row, vec![lock.into()]).await?;
        }
        self.known = Some(lock.to_owned());
        Ok(())
    }

    /// One transaction; it stays open only if the row is locked for us.
    async fn attempt(&mut self, lock: &str, patience: Duration) -> Result<Hold, LockError> {
        let (begin, select) = self.statements(patience);
        self.door.run(&begin).await?;
        let locked = self.door.ask(&select, vec![lock.into()]).await;
        match locked.map(|said| said.rows.len()) {
            Ok(1) => Ok(Hold::new(lock, "")),
            other => {
                self.door.run("ROLLBACK").await?;
                other.and(Err(LockError::Busy))
            }
        }
    }

    fn statements(&self, patience: Duration) -> (String, String) {
        let words = self.door.database.words();
        let wait = if patience.is_zero() && self.wait == Wait::InQueue {
            Wait::Refused
        } else {
            self.wait
        };
        let (begin, select) = (words.begin, words.lock_row);
        match (wait, self.door.database) {
            (Wait::Refused, _) => (begin.to_owned(), format!("{select} NOWAIT")),
            (Wait::Skipped, _) => (begin.to_owned(), format!("{select} SKIP LOCKED")),
            (Wait::InQueue, Database::Postgres) => {
                let millis = patience.as_millis().max(1);
                (format!("{begin}; SET LOCAL lock_timeout = {millis}"), select.to_owned())
            }
            (Wait::InQueue, Database::MariaDb) => {
                let seconds = patience.as_millis().div_ceil(1000);
                (begin.to_owned(), format!("{select} WAIT {seconds}"))
            }
        }
    }
}

impl LockClient for ForUpdate {
    fn acquire<'a>(&'a mut self, lock: &'a str, patience: Duration) -> LockFuture<'a, Hold> {
        Box::pin(async move {
            self.add_row(lock).await?;
            let patience = Deadline::after(patience);
            loop {
                match self.attempt(lock, patience.left()).await {
                    Err(LockError::Busy) if !patience.is_past() => {}
                    done => return done,
                }
                self.door.counter.poll();
                self.settings.pause.sleep(patience).await?;
            }
        })
    }

    fn release(&mut self, _hold: Hold) -> LockFuture<'_, ()> {
        Box::pin(self.door.run("COMMIT"))
    }

    fn usage(&self) -> LockUsage {
        self.door.usage()
    }
}
