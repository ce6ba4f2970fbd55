//! The section about client libraries: holdfast's and those of other systems, by turns in one program.

use std::collections::BTreeSet;

use super::document::{Block, Table};
use super::figures::Figures;
use super::label::label;
use super::speed::spread;
use crate::record::LibrarySpeed;
use crate::statistics::Spread;

const NONE: &str = "–";

/// A row for holdfast's client and one for the other client, of each language and other client.
pub(super) fn libraries(figures: &Figures<'_>) -> Vec<Block> {
    let rows = &figures.libraries;
    if rows.is_empty() {
        return Vec::new();
    }
    let tasks: BTreeSet<u32> = rows.iter().map(|row| row.tasks).collect();
    let pairs: BTreeSet<(&str, &str)> =
        rows.iter().map(|row| (row.language.as_str(), row.other.as_str())).collect();
    let header =
        tasks.iter().map(|tasks| format!("{tasks} task{}", if *tasks == 1 { "" } else { "s" }));
    let mut table =
        Table::with(["language", "client"].map(str::to_owned).into_iter().chain(header));
    for pair in pairs {
        for (client, is_other) in [("holdfast", false), (title(pair.1), true)] {
            let cells = tasks.iter().map(|tasks| cell(rows, pair, *tasks, is_other));
            table.add([pair.0, client].map(str::to_owned).into_iter().chain(cells));
        }
    }
    vec![
        Block::Heading("Client libraries".to_owned()),
        Block::Text(
            "Cycles per second through the client library of each system. All tasks of a program share one client, as the threads of a \
             service do, and each task has its own lock. Both clients took turns in one program after a warm-up; × is the ratio to \
             holdfast's client. `scripts/maintain/client-speed --peers` repeats it."
                .to_owned(),
        ),
        Block::Table(table),
    ]
}

/// The rates of one client, and for the other one the ratio of the medians.
fn cell(rows: &[&LibrarySpeed], pair: (&str, &str), tasks: u32, is_other: bool) -> String {
    let turns = || {
        let is_pair = |row: &&&LibrarySpeed| (row.language.as_str(), row.other.as_str()) == pair;
        rows.iter().filter(is_pair).filter(|row| row.tasks == tasks)
    };
    let own = Spread::of(&turns().map(|row| row.per_second).collect::<Vec<_>>());
    let other = Spread::of(&turns().map(|row| row.other_per_second).collect::<Vec<_>>());
    match (own, other) {
        (Some(own), Some(other)) if is_other && own.median > 0.0 => {
            format!("{} ×{}", spread(other), label(other.median / own.median))
        }
        (Some(own), _) if !is_other => spread(own),
        _ => NONE.to_owned(),
    }
}

/// The name of a client of `scripts/maintain/client-speed`, with its servers.
fn title(client: &str) -> &str {
    match client {
        "curator" => "Curator on ZooKeeper",
        "kazoo" => "kazoo on ZooKeeper",
        "etcd" => "`concurrency.Mutex` of etcd",
        "redisson" => "Redisson on one Redis in memory",
        "redlock" => "`redlock` on one Redis in memory",
        "redis-semaphore" => "`redis-semaphore` on one Redis in memory",
        other => other,
    }
}
