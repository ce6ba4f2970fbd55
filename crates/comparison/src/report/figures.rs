//! From rows to figures: each case of each system with its repetitions put together.
//!
//! Owns the grouping and the medians. What had trouble in one repetition and none in another has the figures of the other,
//! and the trouble is told beside them.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalogue::{OURS, place};
use crate::record::{About, Failover, Fairness, Load, Locks, Measured, Row, Run, Safety, Speed};
use crate::statistics::{Spread, number, per};

/// A case as reports sort it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CaseKey {
    /// Which locks.
    pub(super) locks: Locks,
    /// Closed loop, or open loop at a rate.
    pub(super) load: Load,
    /// How many clients.
    pub(super) clients: u32,
}

/// All repetitions of one case of one system.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    /// Those that were measured to the end.
    measured: Vec<Measured>,
}

impl Cell {
    fn spread(&self, of: impl Fn(&Measured) -> Option<f64>) -> Option<Spread> {
        Spread::of(&self.measured.iter().filter_map(of).collect::<Vec<_>>())
    }

    /// Cycles a second.
    pub(super) fn rate(&self) -> Option<Spread> {
        self.spread(|measured| Some(measured.per_second))
    }

    /// A time, milliseconds; none if nothing was served.
    pub(super) fn time(&self, of: impl Fn(&Measured) -> f64) -> Option<Spread> {
        self.spread(|measured| (measured.cycles + measured.unserved > 0).then(|| of(measured)))
    }

    /// Something that may not have been counted.
    pub(super) fn counted(&self, of: impl Fn(&Measured) -> Option<f64>) -> Option<Spread> {
        self.spread(of)
    }

    /// The part of what the open loop had scheduled that was not served, in percent.
    pub(super) fn unserved(&self) -> Option<f64> {
        let sum = |of: fn(&Measured) -> u64| self.measured.iter().map(of).sum::<u64>();
        per(100.0 * number(sum(|one| one.unserved)), number(sum(|one| one.scheduled)))
    }

    /// Errors and grants while another client believed to hold, in words; none if there were none.
    pub(super) fn wrong(&self) -> Option<String> {
        let mut errors: BTreeMap<&str, u64> = BTreeMap::new();
        for (kind, count) in self.measured.iter().flat_map(|one| &one.errors) {
            *errors.entry(kind).or_default() += count;
        }
        let overlaps = self.measured.iter().map(|one| one.overlaps).sum::<u64>();
        let mut words: Vec<String> =
            errors.iter().map(|(kind, count)| format!("{kind}: {count}")).collect();
        if overlaps > 0 {
            words.push(format!("two holders: {overlaps}"));
        }
        (!words.is_empty()).then(|| words.join(", "))
    }
}

/// Everything that rows say, in the order of reports.
#[derive(Debug, Default)]
pub(super) struct Figures<'a> {
    /// Runs, as they were begun.
    pub(super) runs: Vec<&'a Run>,
    /// What is known of each system; the last word counts.
    pub(super) abouts: BTreeMap<&'a str, &'a About>,
    /// Cells of the speed, by system and case.
    pub(super) speed: BTreeMap<&'a str, BTreeMap<CaseKey, Cell>>,
    /// Rows of the fairness.
    pub(super) fairness: Vec<&'a Fairness>,
    /// Rows of the safety.
    pub(super) safety: Vec<&'a Safety>,
    /// Rows of the failover.
    pub(super) failover: Vec<&'a Failover>,
    /// What could not be measured: part, system, why; each once.
    pub(super) troubles: BTreeSet<(&'static str, &'a str, &'a str)>,
}

impl<'a> Figures<'a> {
    /// Of these rows.
    pub(super) fn of(rows: &'a [Row]) -> Self {
        let mut figures = Self::default();
        for row in rows {
            figures.add(row);
        }
        figures.fairness.sort_by_key(|row| place(&row.system));
        figures.safety.sort_by_key(|row| place(family(&row.system)));
        figures.failover.sort_by_key(|row| place(family(&row.system)));
        figures
    }

    fn add(&mut self, row: &'a Row) {
        match row {
            Row::Run(run) => self.runs.push(run),
            Row::About(about) => {
                self.abouts.insert(&about.system, about);
            }
            Row::Speed(speed) => self.add_speed(speed),
            Row::Fairness(fairness) => {
                self.trouble("fairness", &fairness.system, fairness.trouble.as_deref());
                self.fairness.push(fairness);
            }
            Row::Safety(safety) => {
                self.trouble("safety", &safety.system, safety.trouble.as_deref());
                self.safety.push(safety);
            }
            Row::Failover(failover) => {
                self.trouble("failover", &failover.system, failover.trouble.as_deref());
                self.failover.push(failover);
            }
        }
    }

    fn add_speed(&mut self, speed: &'a Speed) {
        self.trouble("speed", &speed.system, speed.trouble.as_deref());
        let case = CaseKey { locks: speed.locks, load: speed.load, clients: speed.clients };
        let cells = self.speed.entry(&speed.system).or_default();
        let cell = cells.entry(case).or_insert_with(|| Cell { measured: Vec::new() });
        if let (Some(measured), None) = (&speed.measured, &speed.trouble) {
            cell.measured.push(measured.clone());
        }
    }

    fn trouble(&mut self, part: &'static str, system: &'a str, why: Option<&'a str>) {
        if let Some(why) = why {
            self.troubles.insert((part, system, why));
        }
    }

    /// Systems of the speed, in the order of reports.
    pub(super) fn systems(&self) -> Vec<&'a str> {
        let mut systems: Vec<&str> = self.speed.keys().copied().collect();
        systems.sort_by_key(|system| (place(system), *system));
        systems
    }

    /// The number of a system's colour: the same in every plot, and no other's as far as colours last.
    pub(super) fn colour(&self, system: &str) -> usize {
        let mut systems: Vec<&str> = self.speed.keys().copied().collect();
        systems.extend(self.failover.iter().map(|row| family(&row.system)));
        systems.sort_by_key(|system| (place(system), *system));
        systems.dedup();
        systems.iter().position(|known| *known == family(system)).unwrap_or(0)
    }

    /// Cases of the speed that fit.
    pub(super) fn cases(&self, fits: impl Fn(&CaseKey) -> bool) -> Vec<CaseKey> {
        let cases: BTreeSet<CaseKey> =
            self.speed.values().flat_map(BTreeMap::keys).copied().filter(fits).collect();
        cases.into_iter().collect()
    }

    /// One cell.
    pub(super) fn cell(&self, system: &str, case: CaseKey) -> Option<&Cell> {
        self.speed.get(system)?.get(&case)
    }

    /// What ours gave in the same case.
    pub(super) fn ours(&self, case: CaseKey) -> Option<&Cell> {
        self.cell(OURS, case)
    }
}

/// The system of a name that has something added, such as `+fence`.
pub(super) fn family(name: &str) -> &str {
    name.split([' ', '+']).next().unwrap_or(name)
}
