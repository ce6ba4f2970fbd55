//! The first screen of the report: the result in sentences, and a matrix of systems and faults.

use super::document::{Block, Table};
use super::figures::{CaseKey, Figures};
use super::plots::label;
use crate::catalogue::BASELINE;
use crate::record::{LoadLoop, LockLayout, Safety};
use crate::safety::FaultScenario;
use crate::statistics::Spread;

const FENCED: &str = "holdfast-http+fence";
/// The case of the sentence about speed, unless it was not measured.
const CLIENTS: u32 = 64;

pub(super) fn summary(figures: &Figures<'_>) -> Vec<Block> {
    let sentences = [safety(figures), speed(figures), failover(figures)];
    let mut blocks: Vec<Block> = sentences.into_iter().flatten().map(Block::Text).collect();
    let matrix = matrix(figures);
    if !matrix.is_empty() {
        blocks.push(Block::Text(
            "What a fault does under each lock. ok: exactly the stock was sold. oversold N: N pieces were sold that did not \
             exist. stuck: no other worker got the lock within 20 s."
                .to_owned(),
        ));
        blocks.push(Block::Table(matrix));
    }
    blocks
}

/// The outcome of one flash sale; `None` if the fault does not apply to the system.
fn outcome(row: &Safety) -> Option<String> {
    if row.does_not_apply.is_some() {
        return None;
    }
    let harm = row.oversold.max(row.lost_updates);
    Some(match (&row.failure, harm, row.stuck) {
        (Some(_), ..) => "failed".to_owned(),
        (None, 0, 0) => "ok".to_owned(),
        (None, 0, _) => "stuck".to_owned(),
        (None, harm, _) => format!("oversold {harm}"),
    })
}

fn matrix(figures: &Figures<'_>) -> Table {
    let ran = |fault: &&FaultScenario| figures.safety.iter().any(|row| row.fault == fault.name());
    let faults: Vec<&str> =
        FaultScenario::ALL.iter().filter(ran).map(|fault| fault.name()).collect();
    let mut table = Table::with(std::iter::once("system").chain(faults.iter().copied()));
    let mut systems: Vec<&str> = figures.safety.iter().map(|row| row.system.as_str()).collect();
    systems.dedup();
    for system in systems {
        let cell = |fault: &&str| {
            let row = figures.safety.iter().find(|row| row.system == system && row.fault == *fault);
            row.and_then(|row| outcome(row)).unwrap_or_else(|| "–".to_owned())
        };
        table.add(std::iter::once(system.to_owned()).chain(faults.iter().map(cell)));
    }
    table
}

fn safety(figures: &Figures<'_>) -> Option<String> {
    let locks = |row: &&&Safety| !row.system.contains('+') && row.system != "no-lock";
    let mut systems: Vec<&str> =
        figures.safety.iter().filter(locks).map(|row| row.system.as_str()).collect();
    systems.dedup();
    let harmed = |system: &str| {
        let rows = figures.safety.iter().filter(|row| row.system == system);
        rows.map(|row| row.oversold + row.lost_updates).sum::<u64>() > 0
    };
    let oversold = systems.iter().filter(|system| harmed(system)).count();
    let fence = match figures.safety.iter().any(|row| row.system == FENCED) {
        true if harmed(FENCED) => "; holdfast with its fence oversold, too",
        true => "; holdfast with its fence sold exactly the stock under every fault",
        false => "",
    };
    let all = systems.len();
    (all > 0).then(|| {
        format!("**Safety:** without a fence {oversold} of {all} locks oversold under one of these faults{fence}.")
    })
}

fn speed(figures: &Figures<'_>) -> Option<String> {
    let case = CaseKey { locks: LockLayout::Spread, load: LoadLoop::Closed, clients: CLIENTS };
    let rate = |system: &str| Some(figures.cell(system, case)?.rate()?.median);
    let own = rate(BASELINE)?;
    let ratio = |system: &str| Some(format!("{} times {system}", label(own / rate(system)?)));
    let slower = ["zookeeper-curator", "etcd-lock"].into_iter().filter_map(ratio);
    let slower: Vec<String> = slower.collect();
    let others = figures.systems().into_iter().filter(|system| !system.starts_with("holdfast-"));
    let best = others.filter_map(|system| Some((rate(system)?, system)));
    let best = best.max_by(|one, other| one.0.total_cmp(&other.0));
    let best = best.filter(|(rate, _)| *rate > own).map(|(rate, system)| {
        format!("; the fastest, {system}, made {} times as many", label(rate / own))
    });
    let compared =
        if slower.is_empty() { String::new() } else { format!(", {}", slower.join(" and ")) };
    Some(format!(
        "**Speed:** with {CLIENTS} clients on locks of their own, holdfast made {} cycles a second{compared}{}.",
        label(own),
        best.unwrap_or_default()
    ))
}

fn failover(figures: &Figures<'_>) -> Option<String> {
    let median = |system: &str| {
        let row = figures.failover.iter().find(|row| row.system == system)?;
        Some(Spread::of(&row.gaps_ms)?.median)
    };
    let own = median(BASELINE)?;
    let others = ["zookeeper-curator", "etcd-lock"].into_iter();
    let others =
        others.filter_map(|system| Some(format!("{} ms with {system}", label(median(system)?))));
    let others: Vec<String> = others.collect();
    let others = if others.is_empty() { String::new() } else { format!(", {}", others.join(", ")) };
    Some(format!(
        "**Failover:** after `kill -9` of the leader the next grant took {} ms with holdfast{others} (medians).",
        label(own)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Row;
    use crate::record::{Failover, Measured, Speed};

    fn sale(system: &str, fault: FaultScenario, oversold: u64) -> Row {
        let (system, fault) = (system.to_owned(), fault.name().to_owned());
        Row::Safety(Safety { system, fault, workers: 4, oversold, ..Safety::default() })
    }

    fn rate(system: &str, per_second: f64) -> Row {
        Row::Speed(Speed {
            system: system.to_owned(),
            locks: LockLayout::Spread,
            load: LoadLoop::Closed,
            clients: CLIENTS,
            repetition: 1,
            measured: Some(Measured { per_second, cycles: 1, ..Measured::default() }),
            failure: None,
        })
    }

    fn gap(system: &str, ms: f64) -> Row {
        let system = system.to_owned();
        Row::Failover(Failover { system, trials: 1, gaps_ms: vec![ms], ..Failover::default() })
    }

    #[test]
    fn three_sentences_and_a_matrix_follow_from_the_rows() {
        let [first, second, ..] = FaultScenario::ALL;
        let Row::Safety(stuck) = sale("postgres-advisory", first, 0) else { panic!("a sale") };
        let Row::Safety(none) = sale("etcd-lock", second, 0) else { panic!("a sale") };
        let rows = [
            sale("holdfast-http", first, 5),
            sale("holdfast-http", second, 0),
            sale(FENCED, first, 0),
            Row::Safety(Safety { stuck: 1, ..stuck }),
            Row::Safety(Safety { does_not_apply: Some("no clock".to_owned()), ..none }),
            rate("holdfast-http", 4_000.0),
            rate("zookeeper-curator", 1_000.0),
            rate("redis-set-nx-px", 8_000.0),
            gap("holdfast-http", 700.0),
            gap("etcd-lock", 2_000.0),
        ];
        let text = super::super::document::markdown(&summary(&Figures::of(&rows)));
        for expected in [
            "without a fence 1 of 3 locks oversold under one of these faults; holdfast with its fence sold exactly the stock under every fault.",
            "holdfast made 4,000 cycles a second, 4 times zookeeper-curator; the fastest, redis-set-nx-px, made 2 times as many.",
            "took 700 ms with holdfast, 2,000 ms with etcd-lock (medians).",
            "| holdfast-http | oversold 5 | ok |",
            "| holdfast-http+fence | ok | – |",
            "| postgres-advisory | stuck | – |",
            "| etcd-lock | – | – |",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        assert_eq!(summary(&Figures::of(&[])), []);
    }
}
