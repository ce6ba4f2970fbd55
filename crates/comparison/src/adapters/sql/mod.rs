//! Locks in databases, on `PostgreSQL` and `MariaDB` alike: locked rows, a table of locks, locks of the server's own, and
//! rows that are changed only if nobody else has changed them.
//!
//! Owns the table of systems and the tables in the database. Every client has a connection of its own. The words of
//! each database are in `dialect`, its driver behind `door`.

mod advisory;
mod connection;
mod dialect;
mod for_update;
mod lock_table;
mod mariadb;
mod optimistic;
mod postgres;

use std::time::Duration;

pub use advisory::Advisory;
pub use connection::{Door, Said, Value};
pub use dialect::Database;
pub use for_update::{ForUpdate, Wait};
pub use lock_table::LockTable;
pub use optimistic::{Optimistic, Seen};

use crate::{Limitation, LockClient, LockError, LockFuture, Pause, System};

/// What a lock in a database is told.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long a lock outlives a holder that died, for those that end by time.
    pub ttl: Duration,
    /// Between two attempts, for those that poll.
    pub pause: Pause,
}

impl Default for Settings {
    /// 30 s.
    fn default() -> Self {
        Self { ttl: Duration::from_secs(30), pause: Pause::default() }
    }
}

type Make = fn(Door, Settings) -> Result<Box<dyn LockClient>, LockError>;

/// One of the locks in one database.
#[derive(Clone, Debug)]
pub struct SqlSystem {
    name: &'static str,
    limitations: &'static [Limitation],
    make: Make,
    database: Database,
    url: String,
    settings: Settings,
}

impl System for SqlSystem {
    fn name(&self) -> &'static str {
        self.name
    }

    fn limitations(&self) -> &'static [Limitation] {
        self.limitations
    }

    fn client(&self) -> LockFuture<'_, Box<dyn LockClient>> {
        Box::pin(
            async move { (self.make)(Door::open(self.database, &self.url).await?, self.settings) },
        )
    }
}

/// Names, limitations and making of every lock; the last is not the same in both.
const KINDS: [([&str; 2], &[Limitation], Make); 4] = [
    (["postgres-for-update", "mariadb-for-update"], ForUpdate::LIMITATIONS, |door, settings| {
        Ok(Box::new(ForUpdate::new(door, Wait::InQueue, settings)))
    }),
    (["postgres-nowait", "mariadb-nowait"], ForUpdate::POLLED, |door, settings| {
        Ok(Box::new(ForUpdate::new(door, Wait::Refused, settings)))
    }),
    (["postgres-skip-locked", "mariadb-skip-locked"], ForUpdate::POLLED, |door, settings| {
        Ok(Box::new(ForUpdate::new(door, Wait::Skipped, settings)))
    }),
    (["postgres-lock-table", "mariadb-lock-table"], LockTable::LIMITATIONS, |door, settings| {
        Ok(Box::new(LockTable::new(door, settings)?))
    }),
];

/// Makes the tables if they are not there, and answers every lock in the database of this URL.
///
/// # Errors
/// [`LockError::Unreachable`] if it does not answer.
pub async fn systems(
    database: Database,
    url: &str,
    settings: Settings,
) -> Result<Vec<SqlSystem>, LockError> {
    make_tables(database, url).await?;
    Ok(listed(database, url, settings))
}

/// Makes the tables if they are not there.
///
/// # Errors
/// [`LockError::Unreachable`] if the database does not answer.
pub async fn make_tables(database: Database, url: &str) -> Result<(), LockError> {
    let mut door = Door::open(database, url).await?;
    for table in database.words().tables {
        door.run(table).await?;
    }
    Ok(())
}

/// Every lock in the database of this URL; nothing is sent to it yet.
pub fn listed(database: Database, url: &str, settings: Settings) -> Vec<SqlSystem> {
    let named: Make = |door, _| Ok(Box::new(Advisory::new(door)));
    let named = match database {
        Database::Postgres => (["postgres-advisory"; 2], Advisory::BY_NUMBER, named),
        Database::MariaDb => (["mariadb-get-lock"; 2], Advisory::BY_NAME, named),
    };
    let system = |([postgres, mariadb], limitations, make): ([&'static str; 2], _, _)| {
        let name = if database == Database::Postgres { postgres } else { mariadb };
        SqlSystem { name, limitations, make, database, url: url.to_owned(), settings }
    };
    KINDS.into_iter().chain([named]).map(system).collect()
}
