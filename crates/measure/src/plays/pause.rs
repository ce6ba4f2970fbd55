//! The holder is paused between its last check and its write, as by a garbage collection: a flash sale in PostgreSQL.
//!
//! Workers are processes, and the pause is a SIGSTOP. On holdfast the sale runs twice on the same servers: first
//! without and then with the token in each write.

use std::time::Duration;

use super::{Act, Play, PlayLog, directory};
use crate::safety::{
    FaultCluster, FaultScenario, Participant, SaleDatabase, SaleOutcome, SaleSettings, ScenarioRun,
};
use crate::servers::ServerKind;

pub(super) const PLAY: Play = Play {
    name: "pause",
    question: "What if the holder pauses for a garbage collection?",
    answer: "No lock with a lease can stop a write that was computed before the pause. With holdfast the data store can: it \
             compares the token of each write, rejects the old one, and the books are exact.",
    acts: &[
        Act::on("holdfast", &[ServerKind::Holdfast, ServerKind::Postgres], |log| {
            Box::pin(on_holdfast(log))
        }),
        Act::on("Redis, SET NX PX", &[ServerKind::Redis, ServerKind::Postgres], |log| {
            Box::pin(on_redis(log))
        }),
    ],
};

async fn on_holdfast(log: &PlayLog) -> Result<(), String> {
    let mut sale = PausedSale::start("holdfast-http").await?;
    log.begin();
    log.note("sale", "1: the lock alone: no write carries a token");
    let without = sale.sell(log, "sale-1", "holdfast-http").await?;
    judge_wrong(log, &without);
    log.note("sale", "2: the same, and each write carries the token");
    let with = sale.sell(log, "sale-2", "holdfast-http+fence").await?;
    judge_exact(log, &with);
    Ok(())
}

async fn on_redis(log: &PlayLog) -> Result<(), String> {
    let mut sale = PausedSale::start("redis-set-nx-px").await?;
    log.begin();
    let outcome = sale.sell(log, "sale-1", "redis-set-nx-px").await?;
    judge_wrong(log, &outcome);
    Ok(())
}

/// The servers of the sales.
struct PausedSale {
    settings: SaleSettings,
    cluster: FaultCluster,
    database: SaleDatabase,
}

impl PausedSale {
    async fn start(lock: &str) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let (workers, pieces, lease) = (3, 60, Duration::from_secs(2));
        let settings = SaleSettings { workers, pieces, lease, ..SaleSettings::new(program) };
        let participant = Participant::named(lock).ok_or("unknown participant")?;
        let below = directory();
        let starting = FaultCluster::start(participant, &below, lease);
        let (cluster, database) = tokio::join!(starting, SaleDatabase::start(&below));
        Ok(Self { settings, cluster: cluster?, database: database? })
    }

    /// Sells all pieces, with a holder that is paused longer than its lease.
    async fn sell(
        &mut self,
        log: &PlayLog,
        lock: &str,
        participant: &str,
    ) -> Result<SaleOutcome, String> {
        let run = ScenarioRun {
            settings: &self.settings,
            database: &self.database.url(),
            lock,
            participant: Participant::named(participant).ok_or("unknown participant")?,
            scenario: FaultScenario::HolderPaused,
            cluster: &mut self.cluster,
            log,
        };
        let outcome = run.run().await?;
        let books = &outcome.books;
        log.ends("others", "have sold what was left");
        let text = format!(
            "of {} pieces: {} sales, stock {}, {} writes by an old holder",
            books.pieces, books.sold, books.stock, books.stale_writes
        );
        log.note("sale", text);
        Ok(outcome)
    }
}

/// Without a token the write of the paused holder makes the books wrong.
fn judge_wrong(log: &PlayLog, sale: &SaleOutcome) {
    let books = &sale.books;
    let is_wrong = books.lost_updates() > 0 && sale.stale_writes.is_empty();
    let claim = format!("the books are wrong: {} sales of {} pieces", books.sold, books.pieces);
    log.verdict(is_wrong && books.sold > books.pieces, claim);
}

/// With the token the data store rejects the write of the paused holder, and the books are exact.
fn judge_exact(log: &PlayLog, sale: &SaleOutcome) {
    let token = format!("token {} ", sale.halted_token.unwrap_or(0));
    let is_rejected = sale.stale_writes.iter().any(|error| error.contains(&token));
    log.verdict(is_rejected, format!("the data store rejects the write with {}", token.trim()));
    let books = &sale.books;
    let is_exact = books.sold == books.pieces && books.stock == 0 && books.stale_writes == 0;
    let claim = format!("the books are exact: {} sales of {} pieces", books.sold, books.pieces);
    log.verdict(is_exact, claim);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safety::counts::SaleBooks;

    fn outcome(sold: u64, stale_writes: u64, rejected: Option<&str>) -> SaleOutcome {
        SaleOutcome {
            books: SaleBooks { pieces: 60, stock: 0, sold, stale_writes },
            double_holders: 1,
            next_grant: None,
            stuck: false,
            halted_token: Some(33),
            stale_writes: rejected.map(str::to_owned).into_iter().collect(),
        }
    }

    fn all_hold(judge: fn(&PlayLog, &SaleOutcome), sale: &SaleOutcome) -> bool {
        let log = PlayLog::silent();
        judge(&log, sale);
        log.entries().1.iter().all(|verdict| verdict.holds)
    }

    const REJECTED: Option<&str> = Some("stale fencing token 33 for \"sale-1\": the newest is 34");

    #[test]
    fn exact_books_need_the_rejected_token_and_every_piece_sold_once() {
        assert!(all_hold(judge_exact, &outcome(60, 0, REJECTED)));
        for sale in [
            outcome(60, 0, None),
            outcome(60, 0, Some("stale fencing token 333 for")),
            outcome(61, 0, REJECTED),
            outcome(59, 0, REJECTED),
            outcome(60, 1, REJECTED),
        ] {
            assert!(!all_hold(judge_exact, &sale), "{sale:?}");
        }
    }

    #[test]
    fn wrong_books_need_more_sales_than_pieces_and_no_rejection() {
        assert!(all_hold(judge_wrong, &outcome(65, 1, None)));
        assert!(!all_hold(judge_wrong, &outcome(60, 0, None)));
        assert!(!all_hold(judge_wrong, &outcome(65, 1, REJECTED)));
    }
}
