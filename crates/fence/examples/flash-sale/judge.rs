//! The verdict on the two runs, in words and as a bool.
//!
//! Owns what counts as shown. Refuses to look at anything but the runs' endings.

use crate::shop::{Books, PIECES};

/// How one run ended.
pub(crate) struct Ending {
    pub(crate) books: Books,
    /// The refusal of the stopped seller's write, in the error's words.
    pub(crate) refused: Option<String>,
    /// The token that the stopped seller held.
    pub(crate) stale: u64,
}

/// Both endings side by side.
pub(crate) fn table(without: &Ending, with: &Ending) -> String {
    let heads = ["shelf", "orders", "shelf + orders", "stale writes taken"];
    let line = |name: &str, cells: [String; 4]| {
        let [stock, orders, sum, stale] = cells;
        format!("  {name:<16}{stock:>8}{orders:>8}{sum:>16}{stale:>20}")
    };
    let row = |name: &str, Books { stock, orders, out_of_order }: Books| {
        line(name, [stock, orders, stock + orders, out_of_order].map(|number| number.to_string()))
    };
    let lines = [
        String::new(),
        line("", heads.map(str::to_owned)),
        row("without fence", without.books),
        row("with fence", with.books),
        String::new(),
    ];
    lines.join("\n")
}

/// True if both observations were made; and each said plainly.
pub(crate) fn judge(without: &Ending, with: &Ending) -> (bool, [String; 2]) {
    let (broken, exact) = (broken(without), exact(with));
    (broken.is_ok() && exact.is_ok(), [broken, exact].map(|said| said.unwrap_or_else(|said| said)))
}

fn broken(run: &Ending) -> Result<String, String> {
    let Books { orders, out_of_order, .. } = run.books;
    let sum = run.books.sum();
    if sum == PIECES || out_of_order == 0 {
        return Err("NOT SHOWN: without the fence the stale write was to break the books.".into());
    }
    Ok(format!(
        "Without the fence the books are wrong: {orders} orders, and {sum} pieces accounted for where {PIECES} existed."
    ))
}

fn exact(run: &Ending) -> Result<String, String> {
    let token = format!("token {}", run.stale);
    let refused = run.refused.as_ref().is_some_and(|error| error.contains(&format!("{token} ")));
    if !refused {
        return Err("NOT SHOWN: with the fence the stale write was to be refused by name.".into());
    }
    if run.books.sum() != PIECES || run.books.out_of_order != 0 {
        return Err("NOT SHOWN: with the fence the books were to be exact.".into());
    }
    Ok(format!(
        "With the fence the stale write ({token}) was refused by name, and the books are exact."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(stock: i64, orders: i64, out_of_order: i64, refused: Option<&str>) -> Ending {
        let refused = refused.map(str::to_owned);
        Ending { books: Books { stock, orders, out_of_order }, refused, stale: 33 }
    }

    const REFUSAL: Option<&str> =
        Some("stale fencing token 33 for \"flash-sale\": the newest is 34");

    #[test]
    fn both_observations_are_needed() {
        let (wrong, right) = (ending(0, 150, 1, None), ending(0, 100, 0, REFUSAL));
        assert!(judge(&wrong, &right).0);
        for (without, with) in [
            (ending(0, 100, 0, None), ending(0, 100, 0, REFUSAL)),
            (ending(0, 150, 0, None), ending(0, 100, 0, REFUSAL)),
            (ending(0, 150, 1, None), ending(0, 101, 0, REFUSAL)),
            (ending(0, 150, 1, None), ending(0, 100, 1, REFUSAL)),
            (ending(0, 150, 1, None), ending(0, 100, 0, None)),
            (ending(0, 150, 1, None), ending(0, 100, 0, Some("stale fencing token 333 for"))),
        ] {
            let (shown, said) = judge(&without, &with);
            assert!(!shown && said.iter().any(|line| line.starts_with("NOT SHOWN")), "{said:?}");
        }
    }
}
