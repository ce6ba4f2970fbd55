//! The shop's tables and the two ways to sell from them.
//!
//! Owns all SQL of the demonstration. Refuses to know where a token comes from. The sale is the naive
//! read-think-write that real code does; between read and write no transaction is open, so that a seller who stops
//! there holds nothing in the database.

use holdfast_fence::postgres::begin_as;
use holdfast_fence::{FenceError, FencingToken, guard_table_for_sql, schema_sql};
use tokio_postgres::{Client, GenericClient};

use crate::Fallible;

/// The lock, and the resource it protects.
pub(crate) const LOCK: &str = "flash-sale";
/// Pieces on the shelf when the sale opens.
pub(crate) const PIECES: i64 = 100;

const TABLES: &str = "
    DROP TABLE IF EXISTS seckill_order, seckill_good, fence CASCADE;
    CREATE TABLE seckill_good (id bigint PRIMARY KEY, stock_count bigint NOT NULL);
    CREATE TABLE seckill_order (
        id bigserial PRIMARY KEY,
        good_id bigint NOT NULL REFERENCES seckill_good,
        token bigint NOT NULL
    );";

/// What the tables say after a sale.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Books {
    pub(crate) stock: i64,
    pub(crate) orders: i64,
    /// Orders written with an older token than an order before them.
    pub(crate) out_of_order: i64,
}

impl Books {
    pub(crate) fn sum(self) -> i64 {
        self.stock + self.orders
    }
}

/// Empty books and a full shelf; with the fence, guarded tables.
pub(crate) async fn open(client: &Client, fenced: bool) -> Fallible<()> {
    client.batch_execute(TABLES).await?;
    let stock = format!("INSERT INTO seckill_good VALUES (1, {PIECES})");
    client.batch_execute(&stock).await?;
    if fenced {
        client.batch_execute(schema_sql()).await?;
        for table in ["seckill_good", "seckill_order"] {
            client.batch_execute(&guard_table_for_sql(table, LOCK)?).await?;
        }
    }
    Ok(())
}

pub(crate) async fn books(client: &Client) -> Fallible<Books> {
    let question = "SELECT (SELECT stock_count FROM seckill_good), count(*), count(*) FILTER (WHERE token < newest)
        FROM (SELECT token, max(token) OVER (ORDER BY id) AS newest FROM seckill_order) AS orders";
    let row = client.query_one(question, &[]).await?;
    Ok(Books { stock: row.get(0), orders: row.get(1), out_of_order: row.get(2) })
}

/// One seller's way to the database.
pub(crate) struct Counter {
    client: Client,
    seller: String,
    fenced: bool,
}

impl Counter {
    pub(crate) fn new(client: Client, seller: String, fenced: bool) -> Self {
        Self { client, seller, fenced }
    }

    /// The stock; with the fence, read only after the mark was raised to our token.
    pub(crate) async fn read(&mut self, token: FencingToken) -> Result<i64, FenceError> {
        if !self.fenced {
            return read(&self.client).await;
        }
        let transaction = begin_as(&mut self.client, LOCK, token, &self.seller).await?;
        let stock = read(&transaction).await?;
        transaction.commit().await?;
        Ok(stock)
    }

    /// Sets the stock and books the order, both or none; with the fence, only if our token is still the newest.
    pub(crate) async fn write(
        &mut self,
        stock: i64,
        token: FencingToken,
    ) -> Result<(), FenceError> {
        let transaction = if self.fenced {
            begin_as(&mut self.client, LOCK, token, &self.seller).await?
        } else {
            self.client.transaction().await?
        };
        let take = "UPDATE seckill_good SET stock_count = $1 WHERE id = 1";
        transaction.execute(take, &[&stock]).await?;
        let book = "INSERT INTO seckill_order (good_id, token) VALUES (1, $1)";
        transaction.execute(book, &[&token.0.cast_signed()]).await?;
        Ok(transaction.commit().await?)
    }
}

async fn read(client: &impl GenericClient) -> Result<i64, FenceError> {
    let shelf = "SELECT stock_count FROM seckill_good WHERE id = 1";
    Ok(client.query_one(shelf, &[]).await?.get(0))
}
