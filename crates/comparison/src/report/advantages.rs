//! Where another system is better than ours, by how much, and why.
//!
//! Owns what counts as better: with repetitions, only what no repetition contradicts; at least [`MARGIN`] in any case. Where it is
//! better is never left out, and the words beside it are data of `holdfast_rivals`.

use std::collections::BTreeMap;

use crate::{Property, why};

use super::figures::{CaseKey, Cell, Figures, family};
use super::svg::label;
use crate::catalogue::{OURS, named, place};
use crate::record::{Load, Locks};
use crate::statistics::{Spread, number, per};

/// Less than this is no difference.
const MARGIN: f64 = 1.05;
/// How the names of our doors begin.
const OUR_DOORS: &str = "holdfast-";

/// One system that is better in one property.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Advantage {
    /// Which system.
    pub(super) system: String,
    /// In what.
    pub(super) property: Property,
    /// In which of the cases it is better by most.
    pub(super) case: String,
    /// By what factor; infinite where one of the two is zero.
    pub(super) factor: f64,
    /// In how many cases it is better.
    pub(super) cases: u32,
    /// Of how many.
    pub(super) of: u32,
}

impl Advantage {
    /// Why, from the data of the clients.
    pub(super) fn why(&self) -> &'static str {
        why(family(&self.system), self.property)
    }

    /// By how much, in words.
    pub(super) fn by(&self) -> String {
        let factor = if self.factor.is_finite() {
            format!("{}×, ", label(self.factor))
        } else {
            String::new()
        };
        format!("{}: {factor}{} ({} of {})", self.property.text(), self.case, self.cases, self.of)
    }
}

/// One comparison in one case.
struct Match<'a> {
    system: &'a str,
    property: Property,
    case: String,
    /// By what factor theirs is better; none if it is not.
    factor: Option<f64>,
}

/// All of them: by system, then by property.
pub(super) fn advantages(figures: &Figures<'_>) -> Vec<Advantage> {
    let mut found: BTreeMap<(usize, &str, Property), Advantage> = BTreeMap::new();
    let matches = speed(figures).into_iter().chain(order(figures)).chain(gaps(figures));
    for one in matches.chain(harm(figures)) {
        let key = (place(family(one.system)), one.system, one.property);
        let advantage = found.entry(key).or_insert_with(|| Advantage {
            system: one.system.to_owned(),
            property: one.property,
            case: String::new(),
            factor: 0.0,
            cases: 0,
            of: 0,
        });
        advantage.of += 1;
        let Some(factor) = one.factor else { continue };
        advantage.cases += 1;
        if factor > advantage.factor {
            (advantage.case, advantage.factor) = (one.case, factor);
        }
    }
    found.into_values().filter(|advantage| advantage.cases > 0).collect()
}

/// Whether it is a system, and none of our doors: those are compared in the tables alone, and so is what locks nothing.
fn is_other(system: &str) -> bool {
    named(family(system)).is_some() && !system.starts_with(OUR_DOORS)
}

/// The factor by which theirs is above ours.
fn above(theirs: Option<Spread>, ours: Option<Spread>) -> Option<f64> {
    let (theirs, ours) = (theirs?, ours?);
    let clear = theirs.median > ours.median * MARGIN && theirs.is_above(&ours);
    clear.then(|| per(theirs.median, ours.median).unwrap_or(f64::INFINITY))
}

/// The factor by which theirs is below ours.
fn below(theirs: Option<Spread>, ours: Option<Spread>) -> Option<f64> {
    let (theirs, ours) = (theirs?, ours?);
    let clear = theirs.median * MARGIN < ours.median && ours.is_above(&theirs);
    clear.then(|| per(ours.median, theirs.median).unwrap_or(f64::INFINITY))
}

fn speed<'a>(figures: &Figures<'a>) -> Vec<Match<'a>> {
    let mut found = Vec::new();
    for (system, cells) in figures.speed.iter().filter(|(system, _)| is_other(system)) {
        for (case, theirs) in cells {
            if let Some(ours) = figures.ours(*case) {
                found.extend(in_one_case(system, *case, theirs, ours));
            }
        }
    }
    found
}

fn in_one_case<'a>(system: &'a str, case: CaseKey, theirs: &Cell, ours: &Cell) -> Vec<Match<'a>> {
    let closed = case.load == Load::Closed;
    let words = || words(case);
    let one = |property, case: String, factor| Match { system, property, case, factor };
    let mut found = Vec::new();
    if closed {
        let property = match case.locks {
            Locks::Spread => Property::Throughput,
            Locks::Hot => Property::HandOver,
        };
        found.push(one(property, words(), above(theirs.rate(), ours.rate())));
        let trips = |cell: &Cell| cell.counted(|measured| measured.round_trips);
        found.push(one(Property::RoundTrips, words(), below(trips(theirs), trips(ours))));
        let used = |cell: &Cell| cell.counted(|measured| measured.cpu_seconds);
        found.push(one(Property::Processor, words(), below(used(theirs), used(ours))));
    }
    let [p50, p99] = [0, 1].map(|which| {
        let time = |cell: &Cell| {
            cell.time(|measured| if which == 0 { measured.p50_ms } else { measured.p99_ms })
        };
        below(time(theirs), time(ours))
    });
    found.push(one(Property::Time, format!("p50, {}", words()), p50));
    found.push(one(Property::Time, format!("p99, {}", words()), p99));
    found
}

/// A case in a few words.
pub(super) fn words(case: CaseKey) -> String {
    match (case.locks, case.load) {
        (Locks::Spread, Load::Closed) if case.clients == 1 => "1 client".to_owned(),
        (Locks::Spread, Load::Closed) => format!("{} clients", case.clients),
        (Locks::Hot, Load::Closed) => format!("{} clients on one lock", case.clients),
        (_, Load::Open(rate)) => format!("open loop at {rate}/s"),
    }
}

fn order<'a>(figures: &Figures<'a>) -> Vec<Match<'a>> {
    let spread =
        |counts: &[u64]| Spread::of(&counts.iter().map(|of| number(*of)).collect::<Vec<_>>());
    let Some(ours) = figures.fairness.iter().find(|row| row.system == OURS) else {
        return Vec::new();
    };
    let others = figures.fairness.iter().filter(|row| is_other(&row.system));
    let one = |property, system, case: &str, factor| Match {
        property,
        system,
        case: case.to_owned(),
        factor,
    };
    others
        .map(|row| {
            let factor = below(spread(&row.inversions), spread(&ours.inversions));
            one(Property::Fairness, row.system.as_str(), "inversions", factor)
        })
        .collect()
}

fn gaps<'a>(figures: &Figures<'a>) -> Vec<Match<'a>> {
    let ours = figures.failover.iter().find(|row| row.system == OURS);
    let ours = ours.and_then(|row| Spread::of(&row.gaps_ms));
    let others = figures.failover.iter().filter(|row| is_other(&row.system));
    let one = |system, factor| Match {
        system,
        property: Property::Failover,
        case: "median".to_owned(),
        factor,
    };
    others
        .map(|row| {
            let theirs = Spread::of(&row.gaps_ms);
            // Thirty gaps always overlap somewhere: here the medians decide.
            let middle = |spread: Option<Spread>| spread.and_then(|of| Spread::of(&[of.median]));
            one(row.system.as_str(), below(middle(theirs), middle(ours)))
        })
        .collect()
}

/// Fewer pieces oversold, updates lost and double holders than ours without a fence under the same fault.
fn harm<'a>(figures: &Figures<'a>) -> Vec<Match<'a>> {
    let measured = || {
        let rows = figures.safety.iter().copied();
        rows.filter(|row| row.trouble.is_none() && row.does_not_apply.is_none())
    };
    let sum = |row: &crate::record::Safety| {
        Spread::of(&[number(row.oversold + row.lost_updates + row.double_holders)])
    };
    let mut found = Vec::new();
    for row in measured().filter(|row| is_other(&row.system)) {
        let Some(ours) = measured().find(|ours| ours.system == OURS && ours.fault == row.fault)
        else {
            continue;
        };
        found.push(Match {
            system: row.system.as_str(),
            property: Property::Safety,
            case: row.fault.clone(),
            factor: below(sum(row), sum(ours)),
        });
    }
    found
}
