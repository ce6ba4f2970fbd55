//! Combines the repetitions of each case of each system into figures.
//!
//! A case with a failed repetition has the figures of the others; the report shows the failure beside them.

use std::collections::{BTreeMap, BTreeSet};

use crate::statistics::Spread;

use crate::catalogue::{BASELINE, named, position};
use crate::record::{
    ClusterSpeed, Failover, Fairness, LibrarySpeed, LoadLoop, LockLayout, Measured, Row, RunInfo,
    Safety, Speed, SystemInfo, WarmUp, Writers,
};
use crate::servers::ServerKind;
use crate::statistics::{number, per};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CaseKey {
    pub(super) locks: LockLayout,
    pub(super) load: LoadLoop,
    pub(super) clients: u32,
}

/// The repetitions of one case of one system.
#[derive(Clone, Debug)]
pub(super) struct CaseFigures {
    /// The successful repetitions.
    measured: Vec<Measured>,
}

impl CaseFigures {
    fn spread(&self, of: impl Fn(&Measured) -> Option<f64>) -> Option<Spread> {
        Spread::of(&self.measured.iter().filter_map(of).collect::<Vec<_>>())
    }

    pub(super) fn rate(&self) -> Option<Spread> {
        self.spread(|measured| Some(measured.per_second))
    }

    /// A time in milliseconds; `None` if no cycle was served or given up.
    pub(super) fn time(&self, of: impl Fn(&Measured) -> f64) -> Option<Spread> {
        self.spread(|measured| (measured.cycles + measured.unserved > 0).then(|| of(measured)))
    }

    pub(super) fn counted(&self, of: impl Fn(&Measured) -> Option<f64>) -> Option<Spread> {
        self.spread(of)
    }

    /// The percentage of the scheduled cycles of an open loop that were not served.
    pub(super) fn unserved(&self) -> Option<f64> {
        let sum = |of: fn(&Measured) -> u64| self.measured.iter().map(of).sum::<u64>();
        per(100.0 * number(sum(|one| one.unserved)), number(sum(|one| one.scheduled)))
    }

    pub(super) fn has_two_holders(&self) -> bool {
        self.measured.iter().any(|one| one.overlaps > 0)
    }

    /// Errors and double holders, as text.
    pub(super) fn errors(&self) -> Option<String> {
        let mut errors: BTreeMap<&str, u64> = BTreeMap::new();
        for (kind, count) in self.measured.iter().flat_map(|one| &one.errors) {
            *errors.entry(kind).or_default() += count;
        }
        let overlaps = self.measured.iter().map(|one| one.overlaps).sum::<u64>();
        let mut words: Vec<String> =
            errors.iter().map(|(kind, count)| format!("{kind}: {count}")).collect();
        if overlaps > 0 {
            words.push(format!("double holders: {overlaps}"));
        }
        (!words.is_empty()).then(|| words.join(", "))
    }
}

/// All rows, in the order of the report.
#[derive(Debug, Default)]
pub(super) struct Figures<'a> {
    pub(super) runs: Vec<&'a RunInfo>,
    pub(super) system_infos: BTreeMap<&'a str, &'a SystemInfo>,
    pub(super) warm_ups: Vec<&'a WarmUp>,
    pub(super) speed: BTreeMap<&'a str, BTreeMap<CaseKey, CaseFigures>>,
    pub(super) libraries: Vec<&'a LibrarySpeed>,
    pub(super) fairness: Vec<&'a Fairness>,
    pub(super) safety: Vec<&'a Safety>,
    pub(super) failover: Vec<&'a Failover>,
    pub(super) writers: Vec<&'a Writers>,
    pub(super) nodes: Vec<&'a ClusterSpeed>,
    /// The part, system and reason of each failure.
    pub(super) failures: BTreeSet<(&'static str, &'a str, &'a str)>,
}

impl<'a> Figures<'a> {
    pub(super) fn of(rows: &'a [Row]) -> Self {
        let mut figures = Self::default();
        for row in rows {
            figures.add(row);
        }
        figures.fairness.sort_by_key(|row| position(&row.system));
        figures.safety.sort_by_key(|row| position(system_of(&row.system)));
        figures.warm_ups.sort_by_key(|row| position(&row.system));
        figures.writers.sort_by_key(|row| (position(&row.system), row.writers));
        figures.failover.sort_by_key(|row| position(system_of(&row.system)));
        figures
    }

    fn add(&mut self, row: &'a Row) {
        match row {
            Row::Run(run) => self.runs.push(run),
            Row::System(info) => {
                self.system_infos.insert(&info.system, info);
            }
            Row::WarmUp(warm_up) => self.warm_ups.push(warm_up),
            Row::Speed(speed) => self.add_speed(speed),
            Row::ClientLibrary(row) => self.libraries.push(row),
            Row::Fairness(fairness) => {
                self.failure("fairness", &fairness.system, fairness.failure.as_deref());
                self.fairness.push(fairness);
            }
            Row::Safety(safety) => {
                self.failure("safety", &safety.system, safety.failure.as_deref());
                self.safety.push(safety);
            }
            Row::Failover(failover) => {
                self.failure("failover", &failover.system, failover.failure.as_deref());
                self.failover.push(failover);
            }
            Row::Writers(writers) => {
                self.failure("writers", &writers.system, writers.failure.as_deref());
                self.writers.push(writers);
            }
            Row::Nodes(nodes) => {
                self.failure("nodes", BASELINE, nodes.failure.as_deref());
                self.nodes.push(nodes);
            }
        }
    }

    fn add_speed(&mut self, speed: &'a Speed) {
        self.failure("speed", &speed.system, speed.failure.as_deref());
        let case = CaseKey { locks: speed.locks, load: speed.load, clients: speed.clients };
        let cells = self.speed.entry(&speed.system).or_default();
        let cell = cells.entry(case).or_insert_with(|| CaseFigures { measured: Vec::new() });
        if let (Some(measured), None) = (&speed.measured, &speed.failure) {
            cell.measured.push(measured.clone());
        }
    }

    fn failure(&mut self, part: &'static str, system: &'a str, why: Option<&'a str>) {
        if let Some(why) = why {
            self.failures.insert((part, system, why));
        }
    }

    pub(super) fn systems(&self) -> Vec<&'a str> {
        let mut systems: Vec<&str> = self.speed.keys().copied().collect();
        systems.sort_by_key(|system| (position(system), *system));
        systems
    }

    /// The systems of a plot with lines: the first one of each kind of server, at most six.
    pub(super) fn drawn(&self) -> Vec<&'a str> {
        const LINES_MAX: usize = 6;
        let mut kinds = Vec::new();
        let is_first = |system: &&str| {
            let kind = named(system).map(|system| system.kind);
            let is_new = kind != Some(ServerKind::RedisSynced) && !kinds.contains(&kind);
            kinds.push(kind);
            is_new
        };
        self.systems().into_iter().filter(is_first).take(LINES_MAX).collect()
    }

    pub(super) fn cases(&self, fits: impl Fn(&CaseKey) -> bool) -> Vec<CaseKey> {
        let cases: BTreeSet<CaseKey> =
            self.speed.values().flat_map(BTreeMap::keys).copied().filter(fits).collect();
        cases.into_iter().collect()
    }

    pub(super) fn cell(&self, system: &str, case: CaseKey) -> Option<&CaseFigures> {
        self.speed.get(system)?.get(&case)
    }

    /// Returns the same case of holdfast.
    pub(super) fn baseline(&self, case: CaseKey) -> Option<&CaseFigures> {
        self.cell(BASELINE, case)
    }
}

/// Returns the system of a participant: the name without `+fence`.
pub(super) fn system_of(name: &str) -> &str {
    name.split([' ', '+']).next().unwrap_or(name)
}
