//! Locks of the server's own, by name: `pg_advisory_lock` and `GET_LOCK`.
//!
//! Owns how a name becomes a lock, as it is commonly done: `PostgreSQL` takes a number, so the name is hashed to 32 bits;
//! `MariaDB` takes the name. Such locks live in the server's memory and end with the connection.

use std::time::Duration;

use super::{Database, Door};
use crate::{Hold, Limitation, LockClient, LockError, LockFuture, LockUsage};

/// A client of this lock.
#[derive(Debug)]
pub struct Advisory {
    door: Door,
    /// The limit of waiting that this connection was told last.
    limit_ms: Option<u128>,
}

impl Advisory {
    pub(crate) const BY_NUMBER: &[Limitation] = &[
        Limitation::DiesWithConnection,
        Limitation::NamesCollide,
        Limitation::NoFence,
        Limitation::OneServer,
    ];
    pub(crate) const BY_NAME: &[Limitation] =
        &[Limitation::DiesWithConnection, Limitation::NoFence, Limitation::OneServer];

    /// A client at this door.
    pub fn new(door: Door) -> Self {
        Self { door, limit_ms: None }
    }

    /// Its connection.
    pub fn door(&mut self) -> &mut Door {
        &mut self.door
    }

    /// `PostgreSQL` has one limit for the connection, and 0 would be none; told again only when it changes.
    async fn limit(&mut self, patience: Duration) -> Result<(), LockError> {
        let limit_ms = patience.as_millis().max(1);
        if self.limit_ms != Some(limit_ms) {
            self.door.run(&format!("SET lock_timeout = {limit_ms}")).await?;
            self.limit_ms = Some(limit_ms);
        }
        Ok(())
    }

    async fn take(&mut self, lock: &str, patience: Duration) -> Result<bool, LockError> {
        let statement = self.door.database.words().take_named;
        match self.door.database {
            Database::Postgres => {
                self.limit(patience).await?;
                self.door.ask(statement, vec![lock.into()]).await.map(|_| true)
            }
            Database::MariaDb => {
                let millis = i64::try_from(patience.as_millis()).unwrap_or(i64::MAX);
                let said = self.door.ask(statement, vec![lock.into(), millis.into()]).await?;
                Ok(said.first() == Some(1))
            }
        }
    }
}

impl LockClient for Advisory {
    fn acquire<'a>(&'a mut self, lock: &'a str, patience: Duration) -> LockFuture<'a, Hold> {
        Box::pin(async move {
            let taken = self.take(lock, patience).await?;
            taken.then(|| Hold::new(lock, "")).ok_or(LockError::Busy)
        })
    }

    fn release(&mut self, hold: Hold) -> LockFuture<'_, ()> {
        Box::pin(async move {
            let statement = self.door.database.words().free_named;
            let said = self.door.ask(statement, vec![hold.lock.as_str().into()]).await?;
            let ours = said.first() == Some(1);
            ours.then_some(())
                .ok_or_else(|| LockError::Lost("it was not this connection's".to_owned()))
        })
    }

    fn usage(&self) -> LockUsage {
        self.door.usage()
    }
}
