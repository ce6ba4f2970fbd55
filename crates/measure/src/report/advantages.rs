//! Finds the properties in which another system is better than holdfast, the factor, and the reason.
//!
//! With repetitions, only a difference of at least [`MARGIN`] that no repetition contradicts counts. The report omits
//! no advantage of another system.

use std::collections::BTreeMap;

use crate::statistics::Spread;

use super::figures::{CaseFigures, CaseKey, Figures, system_of};
use super::label::ratio;
use super::outcome::SaleResult;
use super::reasons::{Property, reason};
use crate::catalogue::{BASELINE, named, position};
use crate::record::{LoadLoop, LockLayout, Safety};
use crate::statistics::{number, per};

/// The minimum ratio of a difference.
const MARGIN: f64 = 1.05;
/// The prefix of the names of holdfast's front-ends.
const HOLDFAST: &str = "holdfast-";

/// One system that is better in one property.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Advantage {
    pub(super) system: String,
    pub(super) property: Property,
    /// The case with the greatest factor.
    pub(super) case: String,
    /// Infinite if one of the two is zero.
    pub(super) factor: f64,
}

impl Advantage {
    /// Describes the advantage and its reason in one sentence.
    pub(super) fn sentence(&self) -> String {
        let why = named(system_of(&self.system)).map_or("", |system| reason(system, self.property));
        let factor = if self.factor.is_finite() {
            format!("{} times", ratio(self.factor))
        } else {
            "It has".to_owned()
        };
        format!("{factor} {} ({}), {why}.", self.property.text(), self.case)
    }
}

/// One comparison in one case.
struct CaseComparison<'a> {
    system: &'a str,
    property: Property,
    case: String,
    /// The factor by which the other system is better; `None` if it is not.
    factor: Option<f64>,
}

/// Returns the advantages by system, then by property.
pub(super) fn advantages(figures: &Figures<'_>) -> Vec<Advantage> {
    let mut found: BTreeMap<(usize, &str, Property), Advantage> = BTreeMap::new();
    let matches = speed(figures).into_iter().chain(order(figures)).chain(gaps(figures));
    for one in matches.chain(harm(figures)) {
        let Some(factor) = one.factor else { continue };
        let key = (position(system_of(one.system)), one.system, one.property);
        let advantage = found.entry(key).or_insert_with(|| Advantage {
            system: one.system.to_owned(),
            property: one.property,
            case: String::new(),
            factor: 0.0,
        });
        if factor > advantage.factor {
            (advantage.case, advantage.factor) = (one.case, factor);
        }
    }
    found.into_values().collect()
}

/// Returns `true` for a lock of another system: the tables alone compare the others.
fn is_other(system: &str) -> bool {
    named(system_of(system)).is_some() && !system.starts_with(HOLDFAST)
}

/// Returns the factor by which `other` is clearly above `baseline`; `None` if it is not.
fn above(other: Option<Spread>, baseline: Option<Spread>) -> Option<f64> {
    let (other, baseline) = (other?, baseline?);
    let clear = other.median > baseline.median * MARGIN && other.is_above(&baseline);
    clear.then(|| per(other.median, baseline.median).unwrap_or(f64::INFINITY))
}

/// Returns the factor by which `other` is clearly below `baseline`; `None` if it is not.
fn below(other: Option<Spread>, baseline: Option<Spread>) -> Option<f64> {
    let (other, baseline) = (other?, baseline?);
    let clear = other.median * MARGIN < baseline.median && baseline.is_above(&other);
    clear.then(|| per(baseline.median, other.median).unwrap_or(f64::INFINITY))
}

fn speed<'a>(figures: &Figures<'a>) -> Vec<CaseComparison<'a>> {
    let mut found = Vec::new();
    for (system, cells) in figures.speed.iter().filter(|(system, _)| is_other(system)) {
        for (case, other) in cells {
            if let Some(baseline) = figures.baseline(*case) {
                found.extend(in_one_case(system, *case, other, baseline));
            }
        }
    }
    found
}

fn in_one_case<'a>(
    system: &'a str,
    case: CaseKey,
    other: &CaseFigures,
    baseline: &CaseFigures,
) -> Vec<CaseComparison<'a>> {
    let closed = case.load == LoadLoop::Closed;
    let text = || case_text(case);
    let one = |property, case: String, factor| CaseComparison { system, property, case, factor };
    let mut found = Vec::new();
    if closed {
        let property = match case.locks {
            LockLayout::Spread => Property::Throughput,
            LockLayout::Hot => Property::HandOver,
        };
        found.push(one(property, text(), above(other.rate(), baseline.rate())));
        let trips = |cell: &CaseFigures| cell.counted(|measured| measured.round_trips);
        found.push(one(Property::RoundTrips, text(), below(trips(other), trips(baseline))));
        let used = |cell: &CaseFigures| cell.counted(|measured| measured.cpu_seconds);
        found.push(one(Property::ProcessorTime, text(), below(used(other), used(baseline))));
    }
    let [p50, p99] = [0, 1].map(|which| {
        let time = |cell: &CaseFigures| {
            cell.time(|measured| if which == 0 { measured.p50_ms } else { measured.p99_ms })
        };
        below(time(other), time(baseline))
    });
    found.push(one(Property::CycleTime, format!("p50, {}", text()), p50));
    found.push(one(Property::CycleTime, format!("p99, {}", text()), p99));
    found
}

pub(super) fn case_text(case: CaseKey) -> String {
    match (case.locks, case.load) {
        (LockLayout::Spread, LoadLoop::Closed) if case.clients == 1 => "1 client".to_owned(),
        (LockLayout::Spread, LoadLoop::Closed) => format!("{} clients", case.clients),
        (LockLayout::Hot, LoadLoop::Closed) => format!("{} clients on one lock", case.clients),
        (_, LoadLoop::Open(rate)) => format!("open loop at {rate}/s"),
    }
}

fn order<'a>(figures: &Figures<'a>) -> Vec<CaseComparison<'a>> {
    let spread =
        |counts: &[u64]| Spread::of(&counts.iter().map(|of| number(*of)).collect::<Vec<_>>());
    let Some(baseline) = figures.fairness.iter().find(|row| row.system == BASELINE) else {
        return Vec::new();
    };
    let others = figures.fairness.iter().filter(|row| is_other(&row.system));
    let one = |property, system, case: &str, factor| CaseComparison {
        property,
        system,
        case: case.to_owned(),
        factor,
    };
    others
        .map(|row| {
            let factor = below(spread(&row.inversions), spread(&baseline.inversions));
            one(Property::Fairness, row.system.as_str(), "pairs out of order", factor)
        })
        .collect()
}

fn gaps<'a>(figures: &Figures<'a>) -> Vec<CaseComparison<'a>> {
    let baseline = figures.failover.iter().find(|row| row.system == BASELINE);
    let baseline = baseline.and_then(|row| Spread::of(&row.gaps_ms));
    let others = figures.failover.iter().filter(|row| is_other(&row.system));
    let one = |system, factor| CaseComparison {
        system,
        property: Property::Failover,
        case: "median".to_owned(),
        factor,
    };
    others
        .map(|row| {
            let other = Spread::of(&row.gaps_ms);
            // Thirty gaps always overlap, so the medians decide.
            let middle = |spread: Option<Spread>| spread.and_then(|of| Spread::of(&[of.median]));
            one(row.system.as_str(), below(middle(other), middle(baseline)))
        })
        .collect()
}

/// Faults under which the stock stays exact, while holdfast without the fence oversells. The number of oversold pieces
/// depends on the moment, so it is not compared.
fn harm<'a>(figures: &Figures<'a>) -> Vec<CaseComparison<'a>> {
    let has_oversold = |row: &Safety| SaleResult::of(row) == SaleResult::Oversold;
    let keeps_books =
        |row: &Safety| matches!(SaleResult::of(row), SaleResult::Exact | SaleResult::Stuck);
    let rows = || figures.safety.iter().copied();
    let baseline = |fault: &str| {
        rows().find(|row| row.system == BASELINE && row.fault == fault).is_some_and(has_oversold)
    };
    rows()
        .filter(|row| is_other(&row.system) && keeps_books(row) && baseline(&row.fault))
        .map(|row| CaseComparison {
            system: row.system.as_str(),
            property: Property::Safety,
            case: row.fault.clone(),
            factor: Some(f64::INFINITY),
        })
        .collect()
}
