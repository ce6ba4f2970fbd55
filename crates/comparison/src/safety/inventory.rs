//! The store: a shelf and the sales made from it, in `PostgreSQL`.
//!
//! Owns its SQL. The sale is read, think, write, as real code does it: between the read and the write no transaction is
//! open, and nothing but the lock keeps two of them apart; with the fence, the token goes with both. Refuses to know locks.

use holdfast_fence::postgres::begin_as;
use holdfast_fence::{FenceError, FencingToken, guard_table_for_sql, schema_sql};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, GenericClient, NoTls};

use super::count::Books;

const TABLES: &str = "
    DROP TABLE IF EXISTS sale_stock, sale_sales, fence CASCADE;
    CREATE TABLE sale_stock (stock bigint NOT NULL);
    CREATE TABLE sale_sales (id bigserial PRIMARY KEY, worker text NOT NULL, seen bigint NOT NULL, token bigint);";
const READ: &str = "SELECT stock FROM sale_stock";
const WRITE: &str = "UPDATE sale_stock SET stock = $1";
const BOOK: &str = "INSERT INTO sale_sales (worker, seen, token) VALUES ($1, $2, $3)";
const BOOKS: &str = "SELECT (SELECT stock FROM sale_stock), (SELECT count(*) FROM sale_sales)";

/// Connects to the store under a name.
///
/// # Errors
/// What the driver says.
pub async fn connect(url: &str, name: &str) -> Result<Client, tokio_postgres::Error> {
    let url = format!("{url} application_name={name}");
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
    // Ends with the client.
    tokio::spawn(connection);
    Ok(client)
}

/// Empty books and a full shelf; with the fence, tables that refuse every write without the newest token of `lock`.
///
/// # Errors
/// What the database says.
pub async fn open(client: &Client, lock: &str, pieces: u64, fenced: bool) -> Result<(), String> {
    let mut steps = format!("{TABLES}\nINSERT INTO sale_stock VALUES ({pieces});\n");
    if fenced {
        steps.push_str(schema_sql());
        for table in ["sale_stock", "sale_sales"] {
            let guard = guard_table_for_sql(table, lock).map_err(|error| error.to_string())?;
            steps.push_str(&guard);
        }
    }
    client.batch_execute(&steps).await.map_err(|error| described(&error))
}

/// What the tables say.
///
/// # Errors
/// What the database says.
pub async fn books(client: &Client, pieces: u64) -> Result<Books, String> {
    let row = client.query_one(BOOKS, &[]).await.map_err(|error| described(&error))?;
    let (stock, sold): (i64, i64) = (row.get(0), row.get(1));
    Ok(Books { pieces, stock, sold: u64::try_from(sold).unwrap_or(0) })
}

/// One worker's way to the store.
#[derive(Debug)]
pub struct Counter {
    client: Client,
    worker: String,
    /// The resource that the tokens are for, if they are looked at.
    fence: Option<String>,
}

impl Counter {
    /// With the fence, `fence` names the resource.
    pub fn new(client: Client, worker: String, fence: Option<String>) -> Self {
        Self { client, worker, fence }
    }

    /// What the shelf says; with the fence, after the mark was raised to this token.
    ///
    /// # Errors
    /// [`FenceError::Stale`] if somebody with a newer token was here.
    pub async fn read(&mut self, token: Option<u64>) -> Result<i64, FenceError> {
        let Some(fence) = &self.fence else { return read(&self.client).await };
        let transaction = begin_as(&mut self.client, fence, shown(token), &self.worker).await?;
        let stock = read(&transaction).await?;
        transaction.commit().await?;
        Ok(stock)
    }

    /// Takes one from the shelf of which `seen` was read and books the sale, both or none; with the fence, only if
    /// this token is still the newest.
    ///
    /// # Errors
    /// [`FenceError::Stale`] if it is not.
    pub async fn write(&mut self, seen: i64, token: Option<u64>) -> Result<(), FenceError> {
        let transaction = match &self.fence {
            Some(fence) => begin_as(&mut self.client, fence, shown(token), &self.worker).await?,
            None => self.client.transaction().await?,
        };
        let token = token.map(u64::cast_signed);
        transaction.query_typed(WRITE, &[(&(seen - 1), Type::INT8)]).await?;
        let sale: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
            [(&self.worker, Type::TEXT), (&seen, Type::INT8), (&token, Type::INT8)];
        transaction.query_typed(BOOK, &sale).await?;
        Ok(transaction.commit().await?)
    }
}

/// A lock without a token shows none, and is refused.
fn shown(token: Option<u64>) -> FencingToken {
    FencingToken(token.unwrap_or(0))
}

async fn read(client: &impl GenericClient) -> Result<i64, FenceError> {
    let rows = client.query_typed(READ, &[]).await?;
    // An empty shelf rather than a panic, if there is no row.
    Ok(rows.first().map_or(0, |row| row.get(0)))
}

fn described(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), ToString::to_string)
}
