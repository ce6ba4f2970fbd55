//! The inventory: a stock and the sales made from it, in PostgreSQL.
//!
//! A sale reads, waits and writes, like real code. No transaction is open between the read and the write, so only the
//! lock separates two sales. With the fence, both statements carry the token.

use holdfast_fence::postgres::begin_as;
use holdfast_fence::{FenceError, FencingToken, guard_table_for_sql, schema_sql};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, GenericClient, NoTls};

use super::counts::SaleBooks;
use crate::adapters::sql::described;

const TABLES: &str = "
    DROP TABLE IF EXISTS sale_stock, sale_sales, fence CASCADE;
    CREATE TABLE sale_stock (stock bigint NOT NULL);
    CREATE TABLE sale_sales (id bigserial PRIMARY KEY, worker text NOT NULL, seen bigint NOT NULL, token bigint);";
const READ: &str = "SELECT stock FROM sale_stock";
const WRITE: &str = "UPDATE sale_stock SET stock = $1";
const RECORD: &str = "INSERT INTO sale_sales (worker, seen, token) VALUES ($1, $2, $3)";
const BOOKS: &str = "
    SELECT (SELECT stock FROM sale_stock), count(*), count(*) FILTER (WHERE token < newest)
    FROM (SELECT token, max(token) OVER (ORDER BY id) AS newest FROM sale_sales) AS sales";

pub async fn connect(url: &str, name: &str) -> Result<Client, String> {
    let url = format!("{url} application_name={name}");
    let (client, connection) =
        tokio_postgres::connect(&url, NoTls).await.map_err(|error| described(&error))?;
    // The task ends with the client.
    tokio::spawn(connection);
    Ok(client)
}

/// Creates the tables; with the fence, they reject every write without the newest token of `lock`.
pub async fn create(client: &Client, lock: &str, pieces: u64, fenced: bool) -> Result<(), String> {
    let mut statements = format!("{TABLES}\nINSERT INTO sale_stock VALUES ({pieces});\n");
    if fenced {
        statements.push_str(schema_sql());
        for table in ["sale_stock", "sale_sales"] {
            let guard = guard_table_for_sql(table, lock).map_err(|error| error.to_string())?;
            statements.push_str(&guard);
        }
    }
    client.batch_execute(&statements).await.map_err(|error| described(&error))
}

pub async fn books(client: &Client, pieces: u64) -> Result<SaleBooks, String> {
    let row = client.query_one(BOOKS, &[]).await.map_err(|error| described(&error))?;
    let count = |column| u64::try_from(row.get::<_, i64>(column)).unwrap_or(0);
    Ok(SaleBooks { pieces, stock: row.get(0), sold: count(1), stale_writes: count(2) })
}

/// One worker's connection to the inventory.
#[derive(Debug)]
pub struct InventoryClient {
    client: Client,
    worker: String,
    /// The fenced resource, if the database checks tokens.
    fence: Option<String>,
}

impl InventoryClient {
    pub fn new(client: Client, worker: String, fence: Option<String>) -> Self {
        Self { client, worker, fence }
    }

    /// Reads the stock; with the fence, after raising the mark to this token.
    ///
    /// # Errors
    /// [`FenceError::Stale`] if the mark is newer.
    pub async fn read(&mut self, token: Option<u64>) -> Result<i64, FenceError> {
        let Some(fence) = &self.fence else { return read(&self.client).await };
        let transaction = begin_as(&mut self.client, fence, shown(token), &self.worker).await?;
        let stock = read(&transaction).await?;
        transaction.commit().await?;
        Ok(stock)
    }

    /// Takes one piece from a stock that was read as `seen` and records the sale, in one transaction.
    ///
    /// # Errors
    /// [`FenceError::Stale`] if the token is no longer the newest.
    pub async fn sell(&mut self, seen: i64, token: Option<u64>) -> Result<(), FenceError> {
        let transaction = match &self.fence {
            Some(fence) => begin_as(&mut self.client, fence, shown(token), &self.worker).await?,
            None => self.client.transaction().await?,
        };
        let token = token.map(u64::cast_signed);
        transaction.query_typed(WRITE, &[(&(seen - 1), Type::INT8)]).await?;
        let sale: [(&(dyn ToSql + Sync), Type); 3] =
            [(&self.worker, Type::TEXT), (&seen, Type::INT8), (&token, Type::INT8)];
        transaction.query_typed(RECORD, &sale).await?;
        Ok(transaction.commit().await?)
    }
}

/// Returns the token for the fence; a lock without a token uses 0, which the fence rejects.
fn shown(token: Option<u64>) -> FencingToken {
    FencingToken(token.unwrap_or(0))
}

async fn read(client: &impl GenericClient) -> Result<i64, FenceError> {
    let rows = client.query_typed(READ, &[]).await?;
    Ok(rows.first().map_or(0, |row| row.get(0)))
}
