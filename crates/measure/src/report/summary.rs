//! The first screen of the report: the result in three sentences, and a matrix of faults and locks.

use super::document::Block;
use super::figures::{CaseKey, Figures};
use super::label::{label, ratio};
use super::outcome::{self, SaleResult, faults, title};
use crate::adapters::no_lock;
use crate::catalogue::BASELINE;
use crate::record::{LoadLoop, LockLayout, Safety};
use crate::safety::FaultScenario;
use crate::statistics::quantile;

const FENCED: &str = "holdfast-http+fence";
/// The locks that promise as much as holdfast: a majority has written what it acknowledges.
const ALIKE: [&str; 2] = ["zookeeper-curator", "etcd-lock"];
/// The case of the sentence about speed.
const CLIENTS: u32 = 64;

pub(super) fn summary(figures: &Figures<'_>) -> Vec<Block> {
    let sentences = [safety(figures), speed(figures), failover(figures)];
    let mut blocks: Vec<Block> = sentences.into_iter().flatten().map(Block::Text).collect();
    let matrix = outcome::first_matrix(figures);
    if !matrix.is_empty() {
        blocks.push(Block::Table(matrix));
        blocks.push(Block::Text(
            "ok: exactly the stock was sold. oversold: more pieces were sold than existed. stuck: no other worker got the lock \
             within 20 s. not run: the fault does not apply, or the tool cannot inject it. The section about safety has all locks and \
             the reasons. Consul was not measured: there is no Consul server in the distribution's packages."
                .to_owned(),
        ));
    }
    blocks
}

fn safety(figures: &Figures<'_>) -> Option<String> {
    let is_bare = |row: &&&Safety| !row.system.contains('+') && row.system != no_lock::LOCK.name;
    let mut systems: Vec<&str> =
        figures.safety.iter().filter(is_bare).map(|row| row.system.as_str()).collect();
    systems.dedup();
    let all = systems.len();
    let has_oversold = |system: &str| {
        let mut rows = figures.safety.iter().filter(|row| row.system == system);
        rows.any(|row| SaleResult::of(row) == SaleResult::Oversold)
    };
    systems.retain(|system| has_oversold(system));
    let own = if has_oversold(BASELINE) { ", holdfast's own included" } else { "" };
    let faults = faults(figures).iter().filter(|fault| **fault != FaultScenario::None).count();
    let plural = if faults == 1 { "" } else { "s" };
    (all > 0 && faults > 0).then(|| {
        format!(
            "**Safety:** in a flash sale under {faults} fault{plural}, {} of {all} locks without a fence oversold at least \
             once{own}{}.",
            systems.len(),
            fence(figures)
        )
    })
}

/// The second part of the sentence about safety.
fn fence(figures: &Figures<'_>) -> &'static str {
    let rows = figures.safety.iter().filter(|row| row.system == FENCED);
    let results: Vec<SaleResult> = rows.map(|row| SaleResult::of(row)).collect();
    let good = [SaleResult::Exact, SaleResult::NotRun];
    if results.contains(&SaleResult::Oversold) {
        "; holdfast with its fence oversold, too"
    } else if results.contains(&SaleResult::Exact) && results.iter().all(|one| good.contains(one)) {
        "; holdfast with its fence never did"
    } else {
        ""
    }
}

fn speed(figures: &Figures<'_>) -> Option<String> {
    let case = CaseKey { locks: LockLayout::Spread, load: LoadLoop::Closed, clients: CLIENTS };
    let rate = |system: &str| Some(figures.cell(system, case)?.rate()?.median);
    let own = rate(BASELINE)?;
    let alike = ALIKE.into_iter().filter_map(|system| {
        Some(format!("{} times as many as {}", ratio(own / rate(system)?), title(system)))
    });
    let alike: Vec<String> = alike.collect();
    let alike = if alike.is_empty() { String::new() } else { format!(", {}", alike.join(" and ")) };
    let others = figures.systems().into_iter().filter(|system| !system.starts_with("holdfast-"));
    let best = others.filter_map(|system| Some((rate(system)?, system)));
    let best = best.max_by(|one, other| one.0.total_cmp(&other.0));
    let best = best.filter(|(rate, _)| *rate > own).map(|(rate, system)| {
        let info = figures.system_infos.get(system);
        let durability = info.map_or_else(String::new, |info| format!(" ({})", info.durability));
        let times = ratio(rate / own);
        format!("; the fastest, {}{durability}, made {times} times as many", title(system))
    });
    Some(format!(
        "**Speed:** with {CLIENTS} clients on separate locks, holdfast made {} cycles a second{alike}{}.",
        label(own),
        best.unwrap_or_default()
    ))
}

fn failover(figures: &Figures<'_>) -> Option<String> {
    let median = |system: &str| {
        let row = figures.failover.iter().find(|row| row.system == system)?;
        (!row.gaps_ms.is_empty()).then(|| label(quantile(&row.gaps_ms, 0.5)))
    };
    let own = median(BASELINE)?;
    let others = ALIKE.into_iter();
    let others = others
        .filter_map(|system| Some(format!(", {} ms with {}", median(system)?, title(system))));
    Some(format!(
        "**Failover:** after `kill -9` of the leader, the median time to the next grant was {own} ms with holdfast{}.",
        others.collect::<String>()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Row;
    use crate::record::{Failover, Measured, Speed};

    fn sale(system: &str, oversold: u64) -> Row {
        let (system, fault) = (system.to_owned(), FaultScenario::HolderPaused.name().to_owned());
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

    fn gaps(system: &str, gaps_ms: &[f64]) -> Row {
        let (system, gaps_ms) = (system.to_owned(), gaps_ms.to_vec());
        Row::Failover(Failover { system, trials: 3, gaps_ms, ..Failover::default() })
    }

    fn sentence(of: impl Fn(&Figures<'_>) -> Option<String>, rows: &[Row]) -> String {
        of(&Figures::of(rows)).unwrap_or_default()
    }

    #[test]
    fn the_sentence_about_safety_counts_the_locks_that_oversold() {
        let rows =
            [sale("no-lock", 9), sale("holdfast-http", 5), sale("etcd-lock", 0), sale(FENCED, 0)];
        assert_eq!(
            sentence(safety, &rows),
            "**Safety:** in a flash sale under 1 fault, 1 of 2 locks without a fence oversold at least once, holdfast's own \
             included; holdfast with its fence never did."
        );
        let both = sentence(safety, &[sale("etcd-lock", 1), sale(FENCED, 1)]);
        assert!(both.contains("oversold, too") && !both.contains("included"), "{both}");
        let Row::Safety(failed) = sale(FENCED, 0) else { panic!("a sale") };
        let failed = Safety { failure: Some("timed out".to_owned()), ..failed };
        assert!(!sentence(safety, &[sale("etcd-lock", 1), Row::Safety(failed)]).contains("never"));
    }

    #[test]
    fn the_sentence_about_speed_has_the_ratios_to_locks_alike_and_to_the_fastest() {
        let mut rows = vec![rate("holdfast-http", 4_000.0), rate("zookeeper-curator", 1_000.0)];
        let beginning = "**Speed:** with 64 clients on separate locks, holdfast made 4,000 cycles a second, 4 times as many \
                         as ZooKeeper + Curator";
        assert_eq!(sentence(speed, &rows), format!("{beginning}."));
        rows.push(rate("redis-set-nx-px", 10_000.0));
        let fastest = "; the fastest, `redis-set-nx-px`, made 2.5 times as many.";
        assert_eq!(sentence(speed, &rows), format!("{beginning}{fastest}"));
    }

    #[test]
    fn the_sentence_about_failover_has_the_medians_of_the_table() {
        let rows = [gaps("holdfast-http", &[700.0, 800.0]), gaps("etcd-lock", &[2_000.0])];
        let expected = "**Failover:** after `kill -9` of the leader, the median time to the next grant was 700 ms with holdfast, \
                        2,000 ms with etcd.";
        assert_eq!(sentence(failover, &rows), expected);
        assert_eq!(sentence(failover, &[gaps("holdfast-http", &[])]), "");
    }

    #[test]
    fn without_rows_there_is_no_summary() {
        assert_eq!(summary(&Figures::of(&[])), []);
    }
}
