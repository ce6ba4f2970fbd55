//! Many writers change one row, each only if no other has changed it since its read.

use std::time::Duration;

use futures_util::future::try_join_all;

use super::actors::{LOCK, holdfast, row, row_database};
use super::{Act, Play, PlayLog};
use crate::LockError;
use crate::safety::SaleDatabase;
use crate::servers::ServerKind;

/// Changes of each writer.
const CHANGES: u64 = 5;
const WRITERS: [usize; 4] = [1, 4, 16, 64];
const LOCKED_WRITERS: u64 = 16;
const WAIT: Duration = Duration::from_mins(1);

pub(super) const PLAY: Play = Play {
    name: "optimistic",
    question: "What if many optimistic writers change one row?",
    answer: "One writer never repeats its work. With more writers most attempts fail, and all of them cost a read and a write. \
             In a queue each writer writes once.",
    acts: &[
        Act::on("PostgreSQL, an optimistic row", &[ServerKind::Postgres], |log| {
            Box::pin(on_postgres(log))
        }),
        Act::on(
            "holdfast, the same row behind a lock",
            &[ServerKind::Holdfast, ServerKind::Postgres],
            |log| Box::pin(on_holdfast(log)),
        ),
    ],
};

async fn on_postgres(log: &PlayLog) -> Result<(), String> {
    let database = row_database(log).await?;
    let mut shares = Vec::new();
    for writers in WRITERS {
        let name = format!("row-{writers}");
        let mut rows = Vec::new();
        for _ in 0..writers {
            rows.push(row(&database, &name).await?);
        }
        let writing = rows.iter_mut().map(async |row| {
            let mut rejected = 0;
            for _ in 0..CHANGES {
                rejected += row.add(1).await?;
            }
            Ok::<u64, LockError>(rejected)
        });
        let rejected: u64 = try_join_all(writing).await.map_err(text)?.into_iter().sum();
        let changes = value(&database, &name).await?;
        let share = 100 * rejected / (rejected + changes).max(1);
        let line = format!("{writers}: {changes} changes, {rejected} rejected, {share} % in vain");
        log.note("writers", line);
        shares.push(share);
    }
    log.verdict(shares.first() == Some(&0), "a single writer is never rejected");
    log.verdict(
        shares.is_sorted() && shares.last() > Some(&50),
        "with more writers a larger share of the attempts is in vain, at last more than half",
    );
    Ok(())
}

async fn on_holdfast(log: &PlayLog) -> Result<(), String> {
    let (database, cluster) = tokio::try_join!(row_database(log), holdfast(log))?;
    log.begin();
    let mut writers = Vec::new();
    for _ in 0..LOCKED_WRITERS {
        let client = cluster.client().await.map_err(text)?;
        writers.push((client, row(&database, "locked").await?));
    }
    let writing = writers.iter_mut().map(async |(client, row)| {
        let mut rejected = 0;
        for _ in 0..CHANGES {
            let held = client.acquire(LOCK, WAIT).await?;
            rejected += row.add(1).await?;
            client.release(held).await?;
        }
        Ok::<u64, LockError>(rejected)
    });
    let rejected: u64 = try_join_all(writing).await.map_err(text)?.into_iter().sum();
    let changes = value(&database, "locked").await?;
    log.note("writers", format!("{LOCKED_WRITERS}: {changes} changes, {rejected} rejected"));
    let is_exact = changes == LOCKED_WRITERS * CHANGES;
    log.verdict(is_exact && rejected == 0, "in the queue no attempt is in vain");
    Ok(())
}

async fn value(database: &SaleDatabase, name: &str) -> Result<u64, String> {
    let read = row(database, name).await?.read().await.map_err(text)?;
    u64::try_from(read.value).map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
