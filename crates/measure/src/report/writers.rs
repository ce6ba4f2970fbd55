//! The section about writers of one value: what fails without a lock, beside the queue.

use super::document::{Block, Table};
use super::figures::Figures;
use super::label::label;
use super::plots::{self, PlotLine, PlotPoint};
use crate::record::Writers;
use crate::statistics::{number, per};

const PICTURE: &str = "images/writers.svg";
const NONE: &str = "–";

pub(super) fn writers(figures: &Figures<'_>) -> Vec<Block> {
    if figures.writers.is_empty() {
        return Vec::new();
    }
    let plot = plots::percentages(
        "Attempts in vain, by the number of writers of one value",
        "writers",
        "attempts in vain, %",
        &lines(figures),
    );
    let change = |row: &Writers| per(number(row.changes), row.seconds).map(label);
    let time = |row: &Writers| {
        (row.changes > 0).then(|| format!("{} / {}", label(row.p50_ms), label(row.p99_ms)))
    };
    vec![
        Block::Heading("Writers of one value".to_owned()),
        Block::Text(
            "Each writer adds one to the same value, again and again. An optimistic writer reads the value with its version, and \
             writes if no other writer was faster: `postgres-optimistic` and `mariadb-optimistic` compare the version of a row, and \
             `redis-watch` uses `WATCH`, `MULTI` and `EXEC`. An attempt in vain has read and written for nothing, and is repeated. \
             Under a lock each writer waits for its turn, and then reads and writes a row in PostgreSQL. No attempt is in vain, but \
             `holdfast-http` calls two systems for each change."
                .to_owned(),
        ),
        Block::Picture(plot, PICTURE),
        Block::Text("Attempts in vain, %, by the number of writers.".to_owned()),
        Block::Table(table(figures, |row| share(row).map(label))),
        Block::Text("Changes per second.".to_owned()),
        Block::Table(table(figures, change)),
        Block::Text(
            "Time of a change with its attempts in vain, p50 / p99, milliseconds. A few unlucky optimistic writers repeat for \
             long, because no queue protects them."
                .to_owned(),
        ),
        Block::Table(table(figures, time)),
    ]
}

/// The percentage of the attempts that changed nothing.
fn share(row: &Writers) -> Option<f64> {
    per(100.0 * number(row.in_vain), number(row.in_vain + row.changes))
}

/// The systems, in the order of reports.
fn systems<'a>(figures: &Figures<'a>) -> Vec<&'a str> {
    let mut systems: Vec<&str> = figures.writers.iter().map(|row| row.system.as_str()).collect();
    systems.dedup();
    systems
}

fn lines(figures: &Figures<'_>) -> Vec<PlotLine> {
    let line = |system: &str| {
        let rows = figures.writers.iter().filter(|row| row.system == system);
        let point = |row: &&Writers| {
            let y = share(row)?;
            Some(PlotPoint { x: f64::from(row.writers), y, low: y, high: y })
        };
        PlotLine { name: system.to_owned(), points: rows.filter_map(point).collect() }
    };
    systems(figures).into_iter().map(line).filter(|line| !line.points.is_empty()).collect()
}

/// A row for each system, and a column for each number of writers.
fn table(figures: &Figures<'_>, cell: impl Fn(&Writers) -> Option<String>) -> Table {
    let mut columns: Vec<u32> = figures.writers.iter().map(|row| row.writers).collect();
    columns.sort_unstable();
    columns.dedup();
    let header = columns.iter().map(u32::to_string);
    let mut table = Table::with(std::iter::once("system".to_owned()).chain(header));
    for system in systems(figures) {
        let cells = columns.iter().map(|writers| {
            let is_this = |row: &&&Writers| row.system == system && row.writers == *writers;
            let row = figures.writers.iter().find(is_this);
            row.and_then(|row| cell(row)).unwrap_or_else(|| NONE.to_owned())
        });
        table.add(std::iter::once(system.to_owned()).chain(cells));
    }
    table
}
