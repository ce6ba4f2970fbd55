//! The outcome of a flash sale, and the matrices of locks and faults.

use super::document::Table;
use super::figures::Figures;
use crate::record::Safety;
use crate::safety::FaultScenario;

/// The locks on the first screen, each with its title. One lock of each kind; all others are in the complete matrix.
const SHOWN: [(&str, &str); 8] = [
    ("holdfast-http+fence", "holdfast with its fence"),
    ("holdfast-http", "holdfast"),
    ("zookeeper-curator", "ZooKeeper + Curator"),
    ("etcd-lock", "etcd"),
    ("redisson-lock", "Redis + Redisson"),
    ("redlock", "Redlock"),
    ("postgres-advisory", "PostgreSQL advisory lock"),
    ("mariadb-get-lock", "MariaDB `GET_LOCK`"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SaleResult {
    Exact,
    /// Pieces were sold that did not exist, or a sale overwrote another.
    Oversold,
    /// No other worker acquired the lock within the bound.
    Stuck,
    Failed,
    NotRun,
}

impl SaleResult {
    pub(super) fn of(row: &Safety) -> Self {
        match (&row.does_not_apply, &row.failure) {
            (Some(_), _) => Self::NotRun,
            (None, Some(_)) => Self::Failed,
            (None, None) if row.oversold + row.lost_updates > 0 => Self::Oversold,
            (None, None) if row.stuck > 0 => Self::Stuck,
            (None, None) => Self::Exact,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Exact => "ok",
            Self::Oversold => "oversold",
            Self::Stuck => "stuck",
            Self::Failed => "failed",
            Self::NotRun => "not run",
        }
    }

    /// Finds the result of a lock under a fault.
    fn find(figures: &Figures<'_>, system: &str, fault: FaultScenario) -> Self {
        let mut rows = figures.safety.iter();
        let row = rows.find(|row| row.system == system && row.fault == fault.name());
        row.map_or(Self::NotRun, |row| Self::of(row))
    }
}

/// Returns the title of a lock for sentences.
pub(super) fn title(system: &str) -> String {
    let shown = SHOWN.iter().find(|(name, _)| *name == system);
    shown.map_or_else(|| format!("`{system}`"), |(_, title)| (*title).to_owned())
}

/// Returns the scenarios that were run.
pub(super) fn faults(figures: &Figures<'_>) -> Vec<FaultScenario> {
    let ran = |fault: &FaultScenario| figures.safety.iter().any(|row| row.fault == fault.name());
    FaultScenario::ALL.into_iter().filter(ran).collect()
}

/// The matrix of the first screen: a row for each fault, a column for each lock of [`SHOWN`] that was run.
pub(super) fn first_matrix(figures: &Figures<'_>) -> Table {
    let ran = |(system, _): &&(&str, &str)| figures.safety.iter().any(|row| row.system == *system);
    let shown: Vec<&(&str, &str)> = SHOWN.iter().filter(ran).collect();
    let titles = shown.iter().map(|(_, title)| (*title).to_owned());
    let mut table = Table::with(std::iter::once("fault".to_owned()).chain(titles));
    for fault in faults(figures).into_iter().filter(|fault| *fault != FaultScenario::None) {
        let cell = |(system, _): &&(&str, &str)| {
            let text = SaleResult::find(figures, system, fault).text();
            if system.starts_with("holdfast") { format!("**{text}**") } else { text.to_owned() }
        };
        table.add(std::iter::once(fault.title().to_owned()).chain(shown.iter().map(cell)));
    }
    table
}

/// All locks and all faults.
pub(super) fn matrix(figures: &Figures<'_>) -> Table {
    let faults = faults(figures);
    let names = faults.iter().map(|fault| fault.name());
    let mut table = Table::with(std::iter::once("system").chain(names));
    let mut systems: Vec<&str> = figures.safety.iter().map(|row| row.system.as_str()).collect();
    systems.dedup();
    for system in systems {
        let cell = |fault: &FaultScenario| SaleResult::find(figures, system, *fault).text();
        table.add(std::iter::once(system).chain(faults.iter().map(cell)));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Row;

    fn sale(system: &str, fault: FaultScenario) -> Safety {
        let (system, fault) = (system.to_owned(), fault.name().to_owned());
        Safety { system, fault, workers: 4, sold: 100, ..Safety::default() }
    }

    #[test]
    fn a_sale_is_judged_by_its_books_first() {
        let sale = sale("etcd-lock", FaultScenario::HolderPaused);
        let why = Some("because".to_owned());
        for (row, expected) in [
            (sale.clone(), SaleResult::Exact),
            (Safety { oversold: 1, stuck: 1, ..sale.clone() }, SaleResult::Oversold),
            (Safety { lost_updates: 1, ..sale.clone() }, SaleResult::Oversold),
            (Safety { double_holders: 1, ..sale.clone() }, SaleResult::Exact),
            (Safety { stuck: 1, ..sale.clone() }, SaleResult::Stuck),
            (Safety { failure: why.clone(), ..sale.clone() }, SaleResult::Failed),
            (Safety { does_not_apply: why, ..sale }, SaleResult::NotRun),
        ] {
            assert_eq!(SaleResult::of(&row), expected, "{row:?}");
        }
    }

    #[test]
    fn the_first_matrix_has_the_known_locks_and_marks_holdfast() {
        let paused = FaultScenario::HolderPaused;
        let rows = [
            sale("holdfast-http+fence", paused),
            Safety { oversold: 5, ..sale("holdfast-http", paused) },
            Safety { stuck: 1, ..sale("postgres-advisory", paused) },
            sale("postgres-lock-table", paused),
            sale("etcd-lock", FaultScenario::None),
        ]
        .map(Row::Safety);
        let figures = Figures::of(&rows);
        let table = first_matrix(&figures);
        let titles =
            ["fault", "holdfast with its fence", "holdfast", "etcd", "PostgreSQL advisory lock"];
        assert_eq!(table.header, titles);
        let row = ["the holder is paused", "**ok**", "**oversold**", "not run", "stuck"];
        assert_eq!(table.rows, [row.map(str::to_owned).to_vec()]);
        let all = matrix(&figures);
        assert_eq!(all.header, ["system", "none", "holder-paused"]);
        assert!(
            all.rows
                .contains(&["postgres-lock-table", "not run", "ok"].map(str::to_owned).to_vec())
        );
    }

    #[test]
    fn without_sales_there_is_no_matrix() {
        assert!(
            first_matrix(&Figures::default()).is_empty() && matrix(&Figures::default()).is_empty()
        );
    }
}
