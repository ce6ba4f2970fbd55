//! Tests of recipes: script commands, a naive model, random histories, and corrupt snapshots.

pub(super) mod history;
pub(super) mod model;
pub(super) mod properties;
pub(super) mod script_commands;

use holdfast_types::*;

use super::script_commands::Words;
use crate::recipe::parts::{BarrierPart, DoublePart, LatchPart, RecipePart};
use crate::snapshot::part::Part;
use crate::{Machine, RecipeFilter, SnapshotPart};

/// Commands that create state of every kind of recipe, for sessions s1, s2 and s5.
pub(super) fn of_every_kind() -> impl Iterator<Item = Command> {
    let lines = [
        "latch l/1 3",
        "down l/1 key=k1",
        "promise l/1 s1 key=k2",
        "arrive b s1 parties=3 request=7",
        "arrive b s2 parties=3 owner=o",
        "arrive d s1 double parties=2",
        "arrive d s2 double parties=2",
        "arrive d s5 double parties=2 password=5",
        "leave_barrier d s1 double",
        "add c 5",
        "put c/2 -7",
    ];
    lines.into_iter().map(|line| Words::of(line).command(&Machine::new()))
}

/// Corrupts one recipe of a snapshot.
pub(super) fn corrupt(recipes: &mut Vec<RecipePart>, item: usize, what: usize, number: u64) {
    let count = recipes.len().max(1);
    let Some(recipe) = recipes.get_mut(item % count) else { return };
    match recipe {
        RecipePart::Latch(latch) => match what % 5 {
            0 => latch.count = number as u32,
            1 => latch.keys.push((RequestId::new("k2").unwrap(), number as u32)),
            2 => latch.promises.iter_mut().for_each(|promise| promise.1 = SessionId(number)),
            3 => latch.created_in = Revision(number + 90),
            _ => latch.keys.clear(),
        },
        RecipePart::Barrier(barrier) => match what % 5 {
            0 => barrier.parties = number as u32,
            1 => barrier.members.iter_mut().for_each(|m| m.1.session = SessionId(number)),
            2 => barrier.members.iter_mut().for_each(|m| m.0 = Revision(number)),
            3 => barrier.members.iter_mut().for_each(|m| m.1.requested_in = Revision(number)),
            _ => barrier.members.clear(),
        },
        RecipePart::Double(double) => match what % 5 {
            0 => double.parties = number as u32,
            1 => double.round = None,
            2 => double.waiting.clear(),
            3 => double.waiting.iter_mut().for_each(|m| m.1.requested_in = Revision(number)),
            _ => double.round.iter_mut().for_each(|round| round.entered[0].left ^= true),
        },
        RecipePart::Counter { view, .. } => view.version = number,
    }
    if what == 13 {
        drop(recipes.remove(item % count));
    }
}

fn loads(corruption: impl Fn(&mut RecipePart)) -> bool {
    let mut parts: Vec<SnapshotPart> = super::snapshots::machine().dump().collect();
    for SnapshotPart(part) in &mut parts {
        if let Part::Recipes(recipes) = part {
            recipes.iter_mut().for_each(&corruption);
        }
    }
    Machine::load(parts).is_ok()
}

#[test]
fn corrupt_latches_and_counters_are_rejected() {
    let corruptions: [fn(&mut LatchPart); 5] = [
        |latch| latch.count = 0,
        |latch| latch.keys[0].1 = 0,
        |latch| latch.promises[0].1 = SessionId(99),
        |latch| latch.promises[0].0 = latch.keys[0].0.clone(),
        |latch| latch.keys.push(latch.keys[0].clone()),
    ];
    for (number, corrupt) in corruptions.iter().enumerate() {
        let loaded = loads(|part| {
            if let RecipePart::Latch(latch) = part {
                corrupt(latch);
            }
        });
        assert!(!loaded, "corruption {number} was loaded");
    }
    let loaded = loads(|part| {
        if let RecipePart::Counter { view, .. } = part {
            view.version = 0;
        }
    });
    assert!(!loaded, "a counter without a change was loaded");
}

#[test]
fn corrupt_barriers_are_rejected() {
    let corruptions: [fn(&mut BarrierPart); 5] = [
        |barrier| barrier.parties = 2,
        |barrier| barrier.members.clear(),
        |barrier| barrier.members[1] = barrier.members[0].clone(),
        |barrier| barrier.members[0].1.requested_in = Revision(1),
        |barrier| barrier.members[0].1.session = SessionId(99),
    ];
    for (number, corrupt) in corruptions.iter().enumerate() {
        let loaded = loads(|part| {
            if let RecipePart::Barrier(barrier) = part {
                corrupt(barrier);
            }
        });
        assert!(!loaded, "corruption {number} was loaded");
    }
    let corruptions: [fn(&mut DoublePart); 4] = [
        |double| (double.round, double.parties) = (None, 1),
        |double| double.round.as_mut().unwrap().entered[1].left = true,
        |double| double.round.as_mut().unwrap().entered.reverse(),
        |double| drop(double.round.as_mut().unwrap().entered.pop()),
    ];
    for (number, corrupt) in corruptions.iter().enumerate() {
        let loaded = loads(|part| {
            if let RecipePart::Double(double) = part {
                corrupt(double);
            }
        });
        assert!(!loaded, "corruption {number} of a double barrier was loaded");
    }
}

#[test]
fn recipes_are_listed_by_kind_and_name_in_pages() {
    let mut machine = Machine::new();
    let sessions = ["open s1 60000", "open s2 60000", "open s5 60000"].into_iter();
    let sessions = sessions.map(|line| Words::of(line).command(&Machine::new()));
    let commands = sessions.chain(of_every_kind()).collect();
    drop(machine.apply(Entry { stamped_at: Stamp(1_000), commands }));
    let read = |prefix: &str, kind, after: Option<&(RecipeKind, RecipeName)>, limit| {
        let filter = RecipeFilter { prefix: prefix.to_owned(), kind };
        machine.recipes(&filter, after, limit, |name| name.as_str() != "c/2")
    };
    let all = read("", None, None, 9);
    let shown: Vec<_> = all.items.iter().map(|of| (of.name.as_str(), of.state)).collect();
    let expected = [
        ("l/1", RecipeState::Latch { count: 3, left: 2 }),
        ("b", RecipeState::Barrier { parties: 3, arrived: 2 }),
        ("d", RecipeState::DoubleBarrier { parties: 2, arrived: 1, inside: 1 }),
        ("c", RecipeState::Counter { value: 5 }),
    ];
    assert_eq!((shown.as_slice(), all.next), (&expected[..], None), "c/2 is not visible");
    let name = |text: &str| RecipeName::new(text).unwrap();
    let first = read("", None, None, 2);
    assert_eq!((first.items.len(), first.next.as_deref()), (2, Some("barrier/b")));
    let second = read("", None, Some(&(RecipeKind::Barrier, name("b"))), 2);
    assert_eq!(
        (second.items.as_slice(), second.next.as_deref()),
        (&all.items[2..], Some("counter/c"))
    );
    let third = read("", None, Some(&(RecipeKind::Counter, name("c"))), 2);
    assert_eq!((third.items.len(), third.next), (0, None));
    assert_eq!(read("", Some(RecipeKind::Counter), None, 9).items, all.items[3..]);
    assert_eq!(read("l/", None, None, 9).items, all.items[..1]);
    assert_eq!(read("x", None, None, 9).items, []);
}
