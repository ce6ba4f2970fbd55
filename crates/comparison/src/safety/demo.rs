//! The fencing demonstration: the sale with a paused holder, first without and then with the fence, with a printed
//! line for each step.
//!
//! It succeeds only with both observations. Without the fence the books are wrong. With the fence the database rejects
//! the stale write by its token and the books are exact.

use std::time::Instant;

use super::counts::SaleBooks;
use super::{
    FaultScenario, Participant, ParticipantSales, SaleDatabase, SaleOutcome, SaleSettings,
};

/// Runs the demonstration; returns `true` if both observations were made.
pub async fn run() -> Result<bool, String> {
    let began = Instant::now();
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let settings =
        SaleSettings { narrate: |text| say(&format!("  {text}")), ..SaleSettings::new(program) };
    say(&format!(
        "Flash sale: {} pieces in PostgreSQL, {} worker processes, one lock on three nodes of holdfast, sessions of {} s.",
        settings.pieces,
        settings.workers,
        settings.lease.as_secs()
    ));
    let database = SaleDatabase::start(&std::env::temp_dir()).await?;
    say("\nRun 1: the lock alone, no fence");
    let without = sale(&settings, &database, "holdfast-http").await?;
    say("\nRun 2: the same, and the token goes with every write");
    let with = sale(&settings, &database, "holdfast-http+fence").await?;
    say(&table(&without.books, &with.books));
    let (is_shown, observations) = judge(&without, &with);
    say(&observations.join("\n"));
    say(&format!("({:.1} s)", began.elapsed().as_secs_f64()));
    Ok(is_shown)
}

async fn sale(
    settings: &SaleSettings,
    database: &SaleDatabase,
    name: &str,
) -> Result<SaleOutcome, String> {
    let participant = Participant::named(name).ok_or("unknown participant")?;
    let mut sales = ParticipantSales::new(settings, database, participant);
    let outcome = sales.sale(FaultScenario::HolderPaused).await?;
    match outcome.stale_writes.first() {
        Some(error) => (settings.narrate)(&format!("REJECTED: {error}")),
        None => (settings.narrate)("accepted: the stock is set back to an old value"),
    }
    (settings.narrate)("all workers sell until the stock is empty");
    Ok(outcome)
}

fn table(without: &SaleBooks, with: &SaleBooks) -> String {
    let line = |name: &str, cells: [String; 4]| {
        let [stock, sales, sum, stale] = cells;
        format!("  {name:<16}{stock:>8}{sales:>8}{sum:>16}{stale:>20}")
    };
    let row = |name: &str, books: &SaleBooks| {
        let cells = [books.stock.to_string(), books.sold.to_string(), sum(books).to_string()];
        let [stock, sales, sum] = cells;
        line(name, [stock, sales, sum, books.stale_writes.to_string()])
    };
    let head = ["stock", "sales", "stock + sales", "stale writes"].map(str::to_owned);
    let lines = [line("", head), row("without fence", without), row("with fence", with)];
    format!("\n{}\n", lines.join("\n"))
}

fn sum(books: &SaleBooks) -> i128 {
    i128::from(books.stock) + i128::from(books.sold)
}

/// Returns whether both observations were made, and a line for each.
fn judge(without: &SaleOutcome, with: &SaleOutcome) -> (bool, [String; 2]) {
    let observations = [wrong(without), exact(with)];
    let is_shown = observations.iter().all(Result::is_ok);
    (is_shown, observations.map(|observation| observation.unwrap_or_else(|missing| missing)))
}

fn wrong(run: &SaleOutcome) -> Result<String, String> {
    let (books, sum) = (&run.books, sum(&run.books));
    if sum == i128::from(books.pieces) || books.stale_writes == 0 {
        return Err(
            "NOT SHOWN: without the fence the stale write should make the books wrong.".into()
        );
    }
    Ok(format!(
        "Without the fence the books are wrong: {} sales, and {sum} pieces accounted for where {} existed.",
        books.sold, books.pieces
    ))
}

fn exact(run: &SaleOutcome) -> Result<String, String> {
    let books = &run.books;
    let token = format!("token {}", run.halted_token.unwrap_or(0));
    let is_rejected = run.stale_writes.iter().any(|error| error.contains(&format!("{token} ")));
    if !is_rejected {
        return Err(
            "NOT SHOWN: with the fence the stale write should be rejected by its token.".into()
        );
    }
    if sum(books) != i128::from(books.pieces) || books.stale_writes != 0 {
        return Err("NOT SHOWN: with the fence the books should be exact.".into());
    }
    Ok(format!("With the fence the stale write ({token}) is rejected, and the books are exact."))
}

#[expect(clippy::print_stdout, reason = "the demonstration is its output")]
fn say(text: &str) {
    println!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(sold: u64, stale_writes: u64, rejected: Option<&str>) -> SaleOutcome {
        SaleOutcome {
            books: SaleBooks { pieces: 100, stock: 0, sold, stale_writes },
            double_holders: 1,
            next_grant: None,
            stuck: false,
            halted_token: Some(33),
            stale_writes: rejected.map(str::to_owned).into_iter().collect(),
        }
    }

    const REJECTED: Option<&str> = Some("stale fencing token 33 for \"sale-1\": the newest is 34");

    #[test]
    fn both_observations_are_needed() {
        let (wrong, right) = (outcome(150, 1, None), outcome(100, 0, REJECTED));
        assert!(judge(&wrong, &right).0);
        for (without, with) in [
            (outcome(100, 0, None), outcome(100, 0, REJECTED)),
            (outcome(150, 0, None), outcome(100, 0, REJECTED)),
            (outcome(150, 1, None), outcome(101, 0, REJECTED)),
            (outcome(150, 1, None), outcome(100, 1, REJECTED)),
            (outcome(150, 1, None), outcome(100, 0, None)),
            (outcome(150, 1, None), outcome(100, 0, Some("stale fencing token 333 for"))),
        ] {
            let (is_shown, words) = judge(&without, &with);
            let is_said = words.iter().any(|line| line.starts_with("NOT SHOWN"));
            assert!(!is_shown && is_said, "{words:?}");
        }
    }
}
