//! The guard of SQLite in every kind of transaction and with both kinds of journal.

use holdfast_fence::sqlite::advance;
use holdfast_fence::{Claim, FenceError};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::levels::{Holder, cases, play};
use crate::pausing::{STOCK, StockStore};
use crate::search::runtime;
use crate::sqlite::{RESOURCE, SqliteStore, open, read, write};

const KINDS: [(&str, TransactionBehavior); 3] = [
    ("DEFERRED", TransactionBehavior::Deferred),
    ("IMMEDIATE", TransactionBehavior::Immediate),
    ("EXCLUSIVE", TransactionBehavior::Exclusive),
];

struct SqliteHolder {
    connection: Connection,
    kind: TransactionBehavior,
}

impl Holder for SqliteHolder {
    async fn read(
        &mut self,
        claim: Claim,
        early: Option<impl AsyncFnOnce()>,
    ) -> Result<i64, FenceError> {
        let transaction = self.connection.transaction_with_behavior(self.kind)?;
        if let Some(early) = early {
            read(&transaction)?;
            early().await;
        }
        advance(&transaction, RESOURCE, claim, None)?;
        let stock = read(&transaction)?;
        transaction.commit()?;
        Ok(stock)
    }

    async fn write(&mut self, claim: Claim, stock: i64) -> Result<(), FenceError> {
        let transaction: Transaction<'_> = self.connection.transaction_with_behavior(self.kind)?;
        advance(&transaction, RESOURCE, claim, None)?;
        write(&transaction, claim.token(), stock)?;
        Ok(transaction.commit()?)
    }
}

#[test]
fn in_every_kind_of_transaction_a_successor_reads_its_predecessors_writes_in_sqlite() {
    let runtime = runtime();
    for journal in ["WAL", "DELETE"] {
        let mut store = SqliteStore::new();
        store.observer.pragma_update(None, "journal_mode", journal).unwrap();
        let holder = || SqliteHolder { connection: open(store.path()), kind: KINDS[0].1 };
        let (mut predecessor, mut successor) = (holder(), holder());
        for (before, after) in
            KINDS.into_iter().flat_map(|before| KINDS.map(|after| (before, after)))
        {
            (predecessor.kind, successor.kind) = (before.1, after.1);
            for case in cases() {
                runtime.block_on(async {
                    store.reset().await;
                    let mark = "INSERT INTO fence (resource, token) VALUES (?1, 60)";
                    store.observer.execute(mark, [RESOURCE]).unwrap();
                    play(&mut predecessor, &mut successor, case).await;
                    let (stock, sales) = store.count().await;
                    let sold = i64::try_from(sales.len()).unwrap();
                    let what = format!("{journal}: {}, then {}: {case:?}", before.0, after.0);
                    assert_eq!(stock + sold, STOCK, "a write of the predecessor was lost: {what}");
                });
            }
        }
    }
}
