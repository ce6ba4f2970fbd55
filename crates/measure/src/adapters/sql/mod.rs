//! Locks in PostgreSQL and MariaDB: locked rows, a table of locks, named locks of the server, and optimistic
//! updates of rows.
//!
//! `dialect` has the statements of each database, `connection` hides its driver.

pub mod advisory;
mod connection;
mod dialect;
pub mod for_update;
pub mod lock_table;
mod mariadb;
pub mod optimistic;
mod postgres;

pub use advisory::NamedLock;
pub use connection::{SqlConnection, SqlReply, SqlValue};
pub use dialect::Database;
pub use for_update::{ForUpdate, RowWait};
pub use lock_table::LockTable;
pub use optimistic::{OptimisticRow, VersionedValue};

pub(crate) use postgres::described;

use crate::LockError;
use crate::lock::{LockClient, LockFuture, LockSettings, Target};
use crate::servers::{ServerKind, url};

/// Opens a client with its own connection.
fn connect<C: LockClient + 'static>(
    target: Target,
    client: impl FnOnce(SqlConnection, LockSettings) -> C + Send + 'static,
) -> LockFuture<'static, Box<dyn LockClient>> {
    Box::pin(async move {
        let node = target.node()?;
        let connection =
            SqlConnection::open(database(target.kind)?, &url(target.kind, node)).await?;
        Ok(Box::new(client(connection, target.settings)) as Box<dyn LockClient>)
    })
}

fn database(kind: ServerKind) -> Result<Database, LockError> {
    match kind {
        ServerKind::Postgres => Ok(Database::Postgres),
        ServerKind::MariaDb => Ok(Database::MariaDb),
        ServerKind::Redis
        | ServerKind::RedisSynced
        | ServerKind::ZooKeeper
        | ServerKind::Etcd
        | ServerKind::Holdfast => Err(LockError::Rejected("not a database".to_owned())),
    }
}

/// Creates the missing tables of all locks.
///
/// # Errors
/// [`LockError::Unreachable`] if the database does not reply.
pub async fn create_tables(database: Database, url: &str) -> Result<(), LockError> {
    let mut connection = SqlConnection::open(database, url).await?;
    for table in database.statements().tables {
        connection.execute(table).await?;
    }
    Ok(())
}
