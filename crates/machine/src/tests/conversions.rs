//! Calls that give a claim of a holder another mode, for the histories.

use holdfast_types::*;

use super::history::node_parent;
use super::model::{Model, Node, QueueEntry};

pub(super) fn convert(model: &Model, n: usize, mode: Mode, wait: bool) -> Option<Command> {
    let any = n.is_multiple_of(5);
    let holds = |entry: &QueueEntry| entry.hold.is_some() && (any || entry.held != Mode::Exclusive);
    let holds = |node: &&Node| node.entry.as_ref().is_some_and(holds);
    let mut holders: Vec<_> = model.nodes.iter().filter(holds).collect();
    let waited_for = |node: &&Node| {
        node_parent(&node.path).as_lock().is_some_and(|lock| !model.waiters(&lock).is_empty())
    };
    if any && holders.iter().any(waited_for) {
        holders.retain(waited_for);
    }
    if n.is_multiple_of(2) {
        // An upgradable holder has the most conversions.
        holders.sort_by_key(|node| node.entry.as_ref().unwrap().held != Mode::Upgradable);
        holders.truncate(1);
    }
    let node = holders.get(n / 2 % holders.len().max(1))?;
    let owner = node.stat.ephemeral_owner;
    let session = model.sessions.iter().find(|session| session.id as i64 == owner)?;
    let lock = node_parent(&node.path).as_lock()?;
    let open = super::script_commands::open(session.name.as_str());
    let entry = node.entry.as_ref()?;
    let plain = Acquire::new(lock, open, entry.owner.clone());
    let plain = Acquire { mode: Some(mode), wait, ..plain };
    let newest = model.newest_attempt(&session.name).0;
    let by = match n / 4 % 8 {
        0 => None,
        1 => Some(Attempt(newest.max(1))),
        2 => Some(Attempt(newest.saturating_sub(1).max(1))),
        _ => Some(Attempt(newest + 1)),
    };
    let own = entry.claims.get(n / 32 % entry.claims.len())?.attempt;
    let change = match n % 7 {
        0 => None,
        1 => Some(Attempt(own.0 + 1)),
        _ => Some(own),
    };
    let value = n.is_multiple_of(3).then(|| Data::from(vec![n.to_le_bytes()[0] % 3]));
    let min_hold_ms = n.is_multiple_of(11).then_some(7);
    let options = AcquireOptions { value, min_hold_ms, ..AcquireOptions::PLAIN };
    Some(Command::Acquire(Acquire { attempt: by, change, options, ..plain }))
}
